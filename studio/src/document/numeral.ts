// Numbers that keep their exact form. A JavaScript number is a safe integer or a fraction; all
// others (1.0, 2^63) are a `Numeral`, kept as text.

/** A number that no JavaScript number represents exactly, as Rust prints it. */
export class Numeral {
  constructor(readonly text: string) {}
}

const INT64_MIN = -(2n ** 63n);
const UINT64_END = 2n ** 64n;

/** The number of a JSON literal; undefined if it is out of range. */
export function numberOf(literal: string): number | Numeral | undefined {
  if (/^-?[0-9]+$/.test(literal) && literal !== "-0") {
    const whole = BigInt(literal);
    if (whole >= INT64_MIN && whole < UINT64_END) return wholeOf(whole);
  }
  return floatOf(Number(literal));
}

/** A whole number, as a `Numeral` beyond the safe integers. */
export function wholeOf(whole: bigint): number | Numeral {
  const number = Number(whole);
  return Number.isSafeInteger(number) ? number : new Numeral(whole.toString());
}

/** A floating-point number, as a `Numeral` if its value is whole; undefined if not finite. */
export function floatOf(float: number): number | Numeral | undefined {
  if (!Number.isFinite(float)) return undefined;
  return Number.isInteger(float) ? new Numeral(floatText(float)) : float;
}

/** Prints a number as Rust does. */
export function numeralText(number: number | Numeral): string {
  if (number instanceof Numeral) return number.text;
  return Number.isInteger(number) ? number.toString() : floatText(number);
}

/** Prints like serde_json: shortest digits, without exponent between 1e-5 and 1e16. */
function floatText(float: number): string {
  const sign = float < 0 || Object.is(float, -0) ? "-" : "";
  const [mantissa = "0", power = "0"] = Math.abs(float).toExponential().split("e");
  const exponent = Number(power);
  const digits = mantissa.replace(".", "");
  if (exponent >= 16 || exponent < -5) {
    return `${sign}${mantissa}e${exponent > 0 ? "+" : ""}${exponent}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}
