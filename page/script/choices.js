/*
 * choices.js: the menus, and the matrix of torch and CUDA builds.
 */
function optionsFor(fact, value) {
    const known = [["", "unknown"], ...fact.choices.map((one) => [one.value, one.label])];
    const extra = [value, model.said[fact.key]].filter((one) => one && !known.some(([name]) => name === one));
    return [known[0], ...[...new Set(extra)].map((one) => [one, one]), ...known.slice(1)];
}

function fillSelect(select, options, value) {
    select.replaceChildren(...options.map(([name, label]) => element("option", { value: name }, label)));
    select.value = value;
}

function sourceText(fact) {
    const value = model.values[fact.key] ?? UNKNOWN;
    const said = model.said[fact.key] ?? UNKNOWN;
    if (value !== said)
        return said === UNKNOWN ? "chosen" : `chosen; ${NAME} says ${said}`;
    return said === UNKNOWN ? "" : fact.source ?? "";
}

function showMenus() {
    for (const fact of model.choices.facts) {
        const value = model.values[fact.key] ?? UNKNOWN;
        for (const select of document.querySelectorAll(`select[data-key="${fact.key}"]`)) {
            fillSelect(select, optionsFor(fact, value), value);
            const box = select.closest(".fact");
            box.classList.toggle("chosen", value !== (model.said[fact.key] ?? UNKNOWN));
            if (box.querySelector("small") !== null)
                box.querySelector("small").textContent = sourceText(fact);
        }
    }
    byId("package").value = model.package;
    byId("notes").hidden = !model.choices.notes;
    byId("notes").textContent = model.choices.notes ?? "";
    for (const [group, value] of [["installer", model.installer || model.choices.installer], ["shell", shellInUse()]])
        for (const input of document.querySelectorAll(`input[name="${group}"]`))
            input.checked = input.value === value;
}

function menu(fact, prefix, withSource) {
    const id = `${prefix}-${fact.key}`;
    return element("div", { class: "fact" }, element("label", { for: id }, fact.label),
                   element("select", { id, "data-key": fact.key, title: fact.help, onchange: changeFact,
                                       "aria-describedby": withSource ? `${id}-source` : null }),
                   withSource ? element("small", { id: `${id}-source` }) : null);
}

function tabs(group, rows, onchange) {
    return rows.flatMap(([value, label]) => [
        element("input", { type: "radio", name: group, id: `${group}-${value}`, value, onchange }),
        element("label", { for: `${group}-${value}` }, label)]);
}

function buildMenus() {
    const { facts, packages, installers } = model.choices;
    const packageMenu = element("select", { id: "package", onchange: changePackage });
    fillSelect(packageMenu, packages.map(({ name, count }, index) =>
        [index === 0 ? "" : name, `${name} (${count.toLocaleString("en")} wheels)`]), "");
    byId("choices").replaceChildren(...facts.map((fact) => menu(fact, "fact", true)),
        element("div", { class: "fact" }, element("label", { for: "package" }, "Package"), packageMenu, element("small")));
    byId("matrix-switches").replaceChildren(...["gpu", "os", "arch", "python"].map((key) =>
        menu(facts.find((fact) => fact.key === key), "matrix", false)));
    byId("installers").replaceChildren(...tabs("installer", installers.map((one) => [one.name, one.label]), changeInstaller));
    byId("shells").replaceChildren(...tabs("shell", SHELLS, changeShell));
}

/* -- The matrix: one decision for each build of torch, while nothing else is asked. -- */

let matrixRun = 0;

function matrixTable(cells) {
    const { columns, rows } = model.choices;
    const cell = (torch, build, builds) => {
        if (!builds.includes(build))
            return element("td", { class: "absent" }, element("span", { class: "unseen" }, "not published"));
        const button = element("button", { type: "button", class: "way-wait", "aria-label": `torch ${torch}+${build}`,
                                           onclick: () => openCell(torch, build) }, "…");
        cells.push({ torch, build, button });
        return element("td", null, button);
    };
    return element("table", { class: "grid" },
        element("thead", null, element("tr", null, element("th", { scope: "col" }, "torch"),
                                       ...columns.map((build) => element("th", { scope: "col" }, build)))),
        element("tbody", null, ...rows.map(({ torch, builds }) => element("tr", null,
            element("th", { scope: "row" }, torch), ...columns.map((build) => cell(torch, build, builds))))));
}

function showCell(button, answer, title) {
    if (answer.error !== undefined) {
        button.textContent = "error";
        button.title = answer.error.message;
        return;
    }
    button.className = `way-${answer.way}`;
    button.textContent = answer.label;
    button.title = answer.headline;
    button.setAttribute("aria-label",
        `torch ${answer.torch}+${answer.build}: ${title}${answer.version === null ? "" : ` ${answer.version}`}`);
}

async function showMatrix() {
    const run = ++matrixRun;
    const { ways } = model.choices;
    const titles = Object.fromEntries(ways.map((way) => [way.name, way.title]));
    const cells = [];
    byId("matrix").replaceChildren(matrixTable(cells));
    byId("legend").replaceChildren(...ways.map((way) => element("li", null,
        element("span", { class: `swatch way-${way.name}` }), way.label === null ? way.title : `${way.label}: ${way.title}`)));
    markCell();
    for (const { torch, build, button } of cells) {
        const request = { ...planRequest(), command: "cell", torch, build };
        const answer = await send("ask", { request });
        if (run !== matrixRun)
            return;
        showCell(button, answer, titles[answer.way]);
    }
    byId("matrix").dataset.complete = String(run);
}

function markCell() {
    const name = `torch ${model.values.torch}+${model.values.torch_cuda}`;
    for (const button of byId("matrix").querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-label").split(":")[0] === name));
}

function openCell(torch, build) {
    model.values.torch = torch;
    model.values.torch_cuda = build;
    remember();
    refresh();
    byId("answer-title").focus();
    byId("answer").scrollIntoView({ block: "start" });
}

/* -- What the user changes. -- */

function changeFact(event) {
    model.values[event.target.dataset.key] = event.target.value;
    remember();
    refresh();
}

function changePackage(event) {
    model.package = event.target.value;
    remember();
    refresh();
}

function changeInstaller(event) {
    model.installer = event.target.value;
    remember();
    refresh();
}

function changeShell(event) {
    model.shell = event.target.value;
    remember();
    showMenus();
    if (model.plan !== null)
        showPlan(model.plan);
}
