// Starts the real server in a temporary project.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { PageServer } from "./page";

const PYTHON = import.meta.env.STUDIO_PYTHON ?? "../.venv/bin/python";

export class RealServer implements PageServer {
  private readonly folder = mkdtempSync(join(tmpdir(), "studio-"));
  private readonly home = mkdtempSync(join(tmpdir(), "studio-home-"));
  private server: ChildProcess | undefined;
  private port = 0;

  /** Starts the server, again at its previous port, and returns the link that it prints. */
  async open(): Promise<string> {
    const options = ["--no-open", "--port", String(this.port), "--root", this.folder];
    const server = spawn(PYTHON, ["-m", "euphrates", "studio", ...options], {
      env: { ...process.env, EUPHRATES_HOME: this.home },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.server = server;
    for await (const line of createInterface(server.stdout)) {
      if (!line.includes("?code=")) continue;
      this.port = Number(new URL(line).port);
      return line;
    }
    throw new Error("the studio has printed no link");
  }

  /** Kills the server, but not its runs. */
  async kill(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    const { server } = this;
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const gone = once(server, "exit");
    server.kill(signal);
    await gone;
  }

  /** Stops runs and server, and removes the project. */
  async close(): Promise<void> {
    for (const { id, state } of await this.runs()) {
      if (state === "running") await this.ask("POST", `runs/${id}/stop`);
    }
    while ((await this.runs()).some(({ state }) => state === "running")) {
      await new Promise((done) => setTimeout(done, 50));
    }
    await this.kill("SIGTERM");
    for (const folder of [this.folder, this.home]) rmSync(folder, { recursive: true });
  }

  /** Writes a file of the project. */
  write(path: string, text: string): void {
    writeFileSync(join(this.folder, path), text);
  }

  has(path: string): boolean {
    return existsSync(join(this.folder, path));
  }

  read(path: string): string {
    return readFileSync(join(this.folder, path), "utf8");
  }

  /** The lines of a CSV file, with rows sorted. */
  rows(path: string): readonly string[] {
    const [head = "", ...rows] = this.read(path).trim().split("\n");
    return [head, ...rows.sort()];
  }

  private runs(): Promise<readonly { id: string; state: string }[]> {
    return this.ask("GET", "runs");
  }

  private async ask<T>(method: string, path: string): Promise<T> {
    const token = readFileSync(join(this.home, "studio", `${this.port}.token`), "utf8");
    const origin = `http://127.0.0.1:${this.port}`;
    const headers = {
      Authorization: `Bearer ${token}`,
      Origin: origin,
      "X-Euphrates": "1",
      "Content-Type": "application/json",
    };
    const body = method === "GET" ? {} : { body: "{}" };
    return (await fetch(`${origin}/api/${path}`, { method, headers, ...body })).json();
  }
}
