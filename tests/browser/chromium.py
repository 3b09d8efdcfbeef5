"""Starts Debian's Chromium and a web server for the page, and does what a person would do.

Environment: ANYFLASH_PAGE, the folder that `make page` made.
"""
import functools
import http.server
import os
import threading
import time

from selenium import webdriver

WAIT_SECONDS = 120
# The commands of an answer that break a rule: [command, what is wrong with it].
BROKEN_RULES = r"""
    const isStated = (key) => Boolean(model.values[key]);
    const wrong = [];
    for (const code of document.querySelectorAll("code"))
        if (/\bpip3? install( -\S+)* anyflash(\s|$)/.test(code.textContent))
            wrong.push([code.textContent, "installs a name that anybody may register"]);
    for (const block of document.querySelectorAll(".command")) {
        const command = block.querySelector("code").textContent;
        const notes = block.querySelector(".assumes")?.textContent ?? "";
        const need = (condition, text) => {
            if (condition && !notes.includes(text))
                wrong.push([command, `does not say that it assumes ${text}`]);
        };
        const isFile = /[.]whl/.test(command);
        const isOurs = /\/anyflash-[^\/]*[.]whl/.test(command);
        const [, cuda] = /(?:%2B|[+])cu(\d\d)\d?[^\/]*[.]whl/.exec(command) ?? [];
        const installsTorch = block.closest(".steps")?.textContent.includes("torch==");
        const isExact = isFile || /torch==/.test(command);
        need(/-cp3\d+-cp3\w+-/.test(command) && !isStated("python"),
             `Python ${model.assumed.python}`);
        need(/64[.]whl/.test(command) && !isStated("arch"), model.assumed.arch ?? "x86_64");
        need(isExact && !/-any[.]whl/.test(command) && !isStated("os"), labelOf("os"));
        need(isExact && !isOurs && !isStated("gpu") && model.assumed.gpu, model.assumed.gpu);
        need(cuda && !isOurs && !installsTorch && !isStated("torch_cuda"),
             model.assumed.torch_cuda ?? `CUDA ${cuda}`);
        const isStep = block.closest(".steps") !== null;
        if (isFile && isStep && !isOurs && !block.querySelector(".publisher"))
            wrong.push([command, "does not say who published the wheel"]);
    }
    return wrong;
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def copyfile(self, source, out):
        """Sends the second half of the module when Server.second_half is set."""
        if "anyflash.wasm" in self.path and not self.server.second_half.is_set():
            out.write(source.read(os.path.getsize(source.name) // 2))
            out.flush()
            self.server.second_half.wait(WAIT_SECONDS)
        super().copyfile(source, out)

    def log_message(self, *_):
        pass


class Server:
    """Serves the page on its own port until stop()."""

    def __init__(self):
        handler = functools.partial(Handler, directory=os.environ["ANYFLASH_PAGE"])
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.asked = []
        self.second_half = self.http.second_half = threading.Event()
        self.second_half.set()
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class Page:
    """Uses the page as a person would, and reads what it shows."""

    def __init__(self, driver, url):
        self.driver = driver
        self.url = url

    def run(self, script, *values):
        return self.driver.execute_script(script, *values)

    def wait(self, condition, *values):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            found = self.run(f"return {condition}", *values)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"never became true: {condition}")

    def settle(self):
        self.wait("typeof model === 'object' && model.choices !== null && "
                  "document.documentElement.dataset.answered === String(model.generation)")
        assert self.run(BROKEN_RULES) == []

    def open(self, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(self.url + fragment)
        self.settle()

    def paste(self, text):
        """Pastes by a paste event; typing a long text would take minutes."""
        before = self.run("return model.generation")
        self.run("takeLongText(new Blob([arguments[0]]))", text)
        self.wait(f"model.generation > {before}")
        self.settle()

    def give_file(self, path):
        before = self.run("return model.generation")
        self.driver.find_element("id", "file").send_keys(str(path))
        self.wait(f"model.generation > {before}")
        self.settle()

    def choose(self, identifier, value):
        before = self.run("return model.generation")
        self.run("const menu = document.getElementById(arguments[0]);"
                 "menu.value = arguments[1];"
                 "menu.dispatchEvent(new Event('change', {bubbles: true}))", identifier, value)
        self.wait(f"model.generation > {before}")
        self.settle()

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)
        self.settle()

    def clear(self):
        """Makes the page as it was opened: clears, folds and scrolls to the top."""
        before = self.run("return model.generation")
        self.run("document.getElementById('clear').click();"
                 "for (const one of document.querySelectorAll('details'))"
                 "  one.open = one.id === 'have';"
                 "document.activeElement.blur(); scrollTo(0, 0)")
        self.wait(f"model.generation > {before}")
        self.settle()

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def plan(self):
        return self.run("return model.plan")

    def commands(self):
        return self.run("return [...document.querySelectorAll('#answer-body .steps code')]"
                        ".filter(one => one.closest('pre')).map(one => one.textContent)")

    def ask(self, jobs):
        """The answers of the module in the worker to jobs, (NAME, {...}), one after the other;
        many in each script, each of which must end in WAIT_SECONDS."""
        answers = []
        for first in range(0, len(jobs), 40):
            answers += self.driver.execute_async_script("""
                const [jobs, done] = arguments;
                (async () => {
                    const answers = [];
                    for (const [job, { text, ...more }] of jobs)
                        answers.push(await send(job,
                            text === undefined ? more : { ...more, blob: new Blob([text]) }));
                    return answers;
                })().then(done);""", jobs[first:first + 40])
        return answers

    def complaints(self):
        """What Chromium has written to its console, such as violations of the policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] != "DEBUG"]

    def resize(self, width, height=900, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})


def start_driver():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]:
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options,
                              service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_script_timeout(WAIT_SECONDS)
    return driver
