// Validation, requests and texts of perturbations.

import { expect, test } from "vitest";
import {
  durationError,
  type PerturbationForm,
  perturbationText,
  rateError,
  toPerturbation,
} from "../src/app/run/perturbation";

const SAID: PerturbationForm = {
  kind: "instance",
  name: "work.1",
  factor: 4,
  rate: "5MB/s",
  lasts: "",
};

test.each(["-3", "abc", "0", "1e999", "NaN", "3 s"])("%s is an invalid duration", (lasts) => {
  expect(durationError({ ...SAID, lasts })).toContain("above 0");
});

test.each(["", "  ", "3", "0.5", " 2 "])("%o is a valid duration", (lasts) => {
  expect(durationError({ ...SAID, lasts })).toBeUndefined();
});

test("rates are positive sizes and checked for disks and links only", () => {
  for (const kind of ["disk", "link"] as const) {
    for (const rate of ["5MB/s", "1GiB", "1000", " 64 kB/s "]) {
      expect(rateError({ ...SAID, kind, rate })).toBeUndefined();
    }
    for (const rate of ["", "0", "0MB/s", "fast", "-5MB/s", "5MB/h", "/s"]) {
      expect(rateError({ ...SAID, kind, rate })).toContain("5MB/s");
    }
  }
  expect(rateError({ ...SAID, rate: "fast" })).toBeUndefined();
});

test("a perturbation lasts for its duration or to the end of the run", () => {
  expect(toPerturbation(SAID)).toEqual({ instance: "work.1", share: 0.75 });
  expect(toPerturbation({ ...SAID, lasts: "2.5" })).toMatchObject({ lasts: 2.5 });
  const one = { instance: "work.1", share: 0.75, number: 0 };
  expect(perturbationText(one, 3)).toBe("instance work.1: 4.0×, to the end");
  expect(perturbationText({ ...one, after: 1, lasts: 5 }, 3)).toBe(
    "instance work.1: 4.0×, 3.00 s more",
  );
});
