// Asks the WebAssembly module: node ask_module.js MODULE < requests > answers, one JSON text a
// line: each request an object, each answer the module's text as a string. Exits 1 when the module
// imports anything.
"use strict";
const fs = require("fs");

const compiled = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(compiled);
if (imports.length > 0) {
    console.error("imports: " + imports.map((one) => one.module + "." + one.name).join(", "));
    process.exit(1);
}
const { memory, anyflash_alloc, anyflash_free, anyflash_answer } =
    new WebAssembly.Instance(compiled, {}).exports;

function ask(request) {
    const bytes = Buffer.from(request, "utf8");
    const at = anyflash_alloc(bytes.length + 1);
    Buffer.from(memory.buffer, at, bytes.length).set(bytes);
    const answer = anyflash_answer(at, bytes.length);
    anyflash_free(at);
    const whole = Buffer.from(memory.buffer, answer);
    return whole.subarray(0, whole.indexOf(0)).toString("utf8");
}

for (const line of fs.readFileSync(0, "utf8").split("\n"))
    if (line !== "")
        console.log(JSON.stringify(ask(line)));
