// Starts a marimo server with a notebook, using the wheel of `.venv`.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { PageServer } from "./page";

const PYTHON = import.meta.env.STUDIO_PYTHON ?? "../.venv/bin/python";

/** Whether marimo and anywidget are installed; `make test` installs them. */
export function hasMarimo(): boolean {
  return spawnSync(PYTHON, ["-c", "import marimo, anywidget"]).status === 0;
}

export class Marimo implements PageServer {
  private readonly folder = mkdtempSync(join(tmpdir(), "notebook-"));
  private server: ChildProcess | undefined;

  /** Writes a notebook with these cells. */
  constructor(cells: readonly string[]) {
    const cell = (code: string) => {
      const lines = code.trim().split("\n");
      return `@app.cell\ndef _(eu):\n${lines.map((line) => `    ${line}\n`).join("")}    return\n`;
    };
    const first = "@app.cell\ndef _():\n    import euphrates as eu\n    return (eu,)\n";
    const notebook = ["import marimo\n\napp = marimo.App()\n", first, ...cells.map(cell)];
    writeFileSync(join(this.folder, "notebook.py"), notebook.join("\n\n"));
    const theme = '[tool.marimo.display]\ntheme = "system"\n';
    writeFileSync(join(this.folder, "pyproject.toml"), theme);
    copyFileSync("gallery/slow_consumer.json", join(this.folder, "slow_consumer.json"));
  }

  /** Starts the server and returns its URL once it answers. */
  async open(): Promise<string> {
    const port = await freePort();
    const options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", String(port)];
    const home = join(this.folder, "home");
    const server = spawn(PYTHON_HERE, ["-m", "marimo", "run", "notebook.py", ...options], {
      cwd: this.folder,
      env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home, EUPHRATES_HOME: home },
      stdio: ["ignore", "ignore", "inherit"],
    });
    this.server = server;
    const address = `http://127.0.0.1:${port}/`;
    while (!(await answers(address))) {
      if (server.exitCode !== null) throw new Error("the notebook's server has ended");
      await new Promise((done) => setTimeout(done, 100));
    }
    return address;
  }

  async close(): Promise<void> {
    const { server } = this;
    if (server !== undefined && server.exitCode === null) {
      const gone = once(server, "exit");
      server.kill("SIGKILL");
      await gone;
    }
    rmSync(this.folder, { recursive: true });
  }
}

/** `PYTHON` as an absolute path, since the server runs in another folder. */
const PYTHON_HERE = PYTHON.includes("/") ? resolve(PYTHON) : PYTHON;

async function answers(address: string): Promise<boolean> {
  try {
    return (await fetch(address)).ok;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("there is no port");
  return address.port;
}
