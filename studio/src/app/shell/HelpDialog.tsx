// The help dialog: all shortcuts.

import { ACTIONS } from "./actions";

export function HelpDialog() {
  return (
    <dialog id="help" aria-label="Keys">
      <h2>Keys</h2>
      <table>
        <tbody>
          {ACTIONS.map(({ name, help, keys }) => (
            <tr key={name}>
              <td>{help}</td>
              <td>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
            </tr>
          ))}
          <tr>
            <td>Place the module of the palette, behind the selected one</td>
            <td>
              <kbd>Enter</kbd>
            </td>
          </tr>
          <tr>
            <td>Leave a field of a form, a menu or a dialog</td>
            <td>
              <kbd>Escape</kbd>
            </td>
          </tr>
          <tr>
            <td>Go to the next module; move the selected ones</td>
            <td>
              <kbd>Tab</kbd>
              <kbd>Arrows</kbd>
            </td>
          </tr>
        </tbody>
      </table>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}
