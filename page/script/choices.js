/*
 * choices.js: the menus, and the matrix of torch and CUDA builds.
 */
function emptyLabel(fact) {
    const assumed = model.assumed[fact.key];
    const choice = fact.choices.find((one) => one.value === assumed);
    return assumed ? `${choice?.label ?? assumed}, assumed` : "unknown";
}

function optionsFor(fact, value) {
    const known = [["", emptyLabel(fact)], ...fact.choices.map((one) => [one.value, one.label])];
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
    if (model.refused[fact.key])
        return model.refused[fact.key];
    if (value === UNKNOWN && model.assumed[fact.key])
        return guesses()[fact.key]?.source ?? "the usual one";
    if (value !== said)
        return said === UNKNOWN ? "chosen" : `chosen; ${NAME} says ${said}`;
    return said === UNKNOWN ? "" : fact.source ?? "";
}

function showMenus() {
    for (const fact of model.choices.facts) {
        const value = model.values[fact.key] ?? UNKNOWN;
        const select = byId(`fact-${fact.key}`);
        if (select.list) {
            select.value = value.replace(/\bNVIDIA (GeForce )?/, ""); // the box is short; the model tells GPUs apart
            select.placeholder = model.assumed[fact.key] ? `${model.assumed[fact.key]}, assumed` : "such as RTX 5090";
        } else
            fillSelect(select, optionsFor(fact, value), value);
        const box = select.closest(".fact");
        box.hidden = !isAsked(fact.key);
        box.classList.toggle("chosen", value !== (model.said[fact.key] ?? UNKNOWN));
        box.classList.toggle("empty", value === UNKNOWN);
        box.classList.toggle("refused", model.refused[fact.key] !== undefined);
        box.querySelector("small").textContent = sourceText(fact);
        box.querySelector("label").textContent = menuLabel(fact);
    }
    byId("have-summary").textContent = nothingIsKnown() ? "Choose by hand" : `${summary()} (change)`;
    byId("package").value = model.package;
    byId("official").checked = model.official;
    byId("notes").hidden = !model.choices.notes;
    byId("notes").textContent = model.choices.notes ?? "";
    for (const [group, value] of [["installer", model.installer || model.choices.installer], ["shell", shellInUse()]])
        for (const input of document.querySelectorAll(`input[name="${group}"]`))
            input.checked = input.value === value;
}

/* The maker of a GPU, as the menu groups them; "" if it is not known. */
function makerOfGpu(gpu = valueOf("gpu")) {
    const name = gpu.replace(/^\d+x /, "").toLowerCase();
    const known = model.firstChoices.facts.find((fact) => fact.key === "gpu").choices;
    const found = longestIn(known.filter((one) => one.group !== null && name.includes(one.value.toLowerCase())).map((one) => one.value));
    return known.find((one) => one.value === found)?.group ?? "";
}

/* AMD's builds of torch are not for CUDA. */
const menuLabel = ({ key, label }) => key === "torch_cuda" && makerOfGpu() === "AMD" ? "ROCm build of torch" : label;

/* Windows and macOS have no glibc, macOS no CUDA, and only NVIDIA's GPUs need NVIDIA's driver. */
function isAsked(key) {
    if (model.values[key] || model.said[key])
        return true;
    if (key === "libc")
        return !["windows", "macos"].includes(valueOf("os"));
    if (key === "torch_cuda")
        return valueOf("os") !== "macos" && makerOfGpu() !== "Intel";
    return key !== "driver" || ["", "NVIDIA"].includes(makerOfGpu());
}

const factOf = (key) => model.choices.facts.find((fact) => fact.key === key);

function labelOf(key) {
    const value = valueOf(key);
    return factOf(key).choices.find((one) => one.value === value)?.label ?? value;
}

/* "RTX 5090 · Windows · Python 3.12 · torch 2.10.0+cu130": the menus in one line. */
function summary() {
    const torch = valueOf("torch") === "none" ? "no torch" : valueOf("torch") && `torch ${valueOf("torch")}`;
    const build = torch && valueOf("torch_cuda") ? `+${valueOf("torch_cuda")}` : "";
    const parts = [valueOf("gpu"), labelOf("os"), valueOf("python") && `Python ${valueOf("python")}`, torch && torch + build];
    return parts.filter(Boolean).join(" · ");
}

function menu(fact) {
    const id = `fact-${fact.key}`;
    const attributes = { id, "data-key": fact.key, onchange: changeFact, "aria-describedby": `${id}-source` };
    // A list of 160 GPUs needs a search, which only a text box with suggestions has.
    const control = fact.key !== "gpu" ? [element("select", attributes)]
        : [element("input", { ...attributes, list: "gpus", spellcheck: "false" }),
           element("datalist", { id: "gpus" }, ...fact.choices.map((one) =>
               element("option", { value: one.value }, one.label === one.value ? one.group : one.label)))];
    return element("div", { class: "fact" }, element("label", { for: id }, fact.label), ...control,
                   element("small", { id: `${id}-source` }));
}

function tabs(group, rows, onchange) {
    return rows.flatMap(([value, label]) => [
        element("input", { type: "radio", name: group, id: `${group}-${value}`, value, onchange }),
        element("label", { for: `${group}-${value}` }, label)]);
}

function buildMenus() {
    const { facts, packages, installers } = model.choices;
    const packageMenu = element("select", { id: "package", onchange: (event) => choosePackage(event.target.value) });
    fillSelect(packageMenu, packages.map(({ name, count }, index) =>
        [index === 0 ? "" : name, `${name} (${count.toLocaleString("en")} wheels)`]), "");
    byId("choices").replaceChildren(...facts.map(menu),
        element("div", { class: "fact" }, element("label", { for: "package" }, "Package"), packageMenu),
        element("div", { class: "fact" }, element("label", { for: "version" }, "Version of the package"),
                element("select", { id: "version", onchange: chooser("version") })),
        element("div", { class: "fact" }, element("label", { for: "publisher" }, "Publisher"),
                element("select", { id: "publisher", onchange: chooser("publisher") })),
        element("div", { class: "fact check" }, element("input", { type: "checkbox", id: "official", onchange: chooser("official", "checked") }),
                element("label", { for: "official" }, "Official wheels only")));
    byId("menus").hidden = false;
    byId("installers").replaceChildren(...tabs("installer", installers.map((one) => [one.name, one.label]), chooser("installer")));
    byId("shells").replaceChildren(...tabs("shell", SHELLS, changeShell));
}

/* -- The matrix: one decision for each build of torch, while nothing else is asked. -- */

let matrixRun = 0;

function matrixTable(cells) {
    const { columns, rows } = model.choices;
    const cell = (torch, build, builds) => {
        if (!builds.includes(build))
            return element("td", { class: "absent" }, element("span", { class: "unseen" }, "not published"));
        const button = element("button", { type: "button", class: "way-wait", tabindex: "-1", "aria-label": `torch ${torch}+${build}`,
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

/* One tab stop; the arrow keys move inside the table. */
function moveInMatrix(event) {
    const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    const step = steps[event.key];
    const from = event.target.closest("td");
    if (step === undefined || from === null)
        return;
    event.preventDefault();
    const rows = from.closest("tbody").rows;
    for (let row = from.parentNode.rowIndex - 1 + step[0], column = from.cellIndex + step[1];
        rows[row]?.cells[column] !== undefined; row += step[0], column += step[1]) {
        const button = rows[row].cells[column].querySelector("button");
        if (button !== null) {
            makeStop(button);
            button.focus();
            return;
        }
    }
}

function makeStop(button) {
    for (const one of byId("matrix").querySelectorAll("button"))
        one.tabIndex = one === button ? 0 : -1;
}

async function showMatrix() {
    const run = ++matrixRun;
    const { ways } = model.choices;
    const titles = Object.fromEntries(ways.map((way) => [way.name, way.title]));
    const cells = [];
    const isForNvidia = ["", "NVIDIA"].includes(makerOfGpu()) && valueOf("os") !== "macos";
    byId("table").hidden = !isForNvidia || valueOf("gpu") === "" || nothingIsKnown(); // CUDA builds are for no other GPU
    byId("matrix").replaceChildren(matrixTable(cells));
    byId("legend").replaceChildren(...ways.map((way) => element("li", null,
        element("span", { class: `swatch way-${way.name}` }), way.label === null ? way.title : `${way.label}: ${way.title}`)));
    markCell();
    const start = byId("matrix").querySelector("button[aria-pressed=true]") ?? byId("matrix").querySelector("button");
    if (start !== null)
        makeStop(start);
    if (byId("table").hidden)
        cells.length = 0;
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
    const box = byId("matrix").getBoundingClientRect();
    const cell = byId("matrix").querySelector("button[aria-pressed=true]")?.getBoundingClientRect();
    if (cell !== undefined)
        byId("matrix").scrollLeft += cell.left + cell.width / 2 - box.left - box.width / 2;
    showMore();
}

/* Fades the table's end where more columns follow. */
function showMore() {
    const { scrollLeft, clientWidth, scrollWidth, classList } = byId("matrix");
    classList.toggle("more", scrollLeft + clientWidth < scrollWidth - 1);
    byId("sideways").hidden = scrollWidth <= clientWidth;
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
    model.values[event.target.dataset.key] = event.target.value.trim();
    remember();
    refresh();
}

/* Another package has other versions and publishers. */
function choosePackage(name) {
    Object.assign(model, { package: name, version: "", publisher: "" });
    remember();
    refresh();
}

/* Takes a choice into model[key] from a control's property. */
const chooser = (key, property = "value") => (event) => {
    model[key] = event.target[property];
    remember();
    refresh();
};

function changeShell(event) {
    model.shell = event.target.value;
    remember();
    showMenus();
    if (model.plan !== null)
        showPlan(model.plan);
}
