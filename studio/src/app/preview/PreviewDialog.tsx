// The dialog with the rows of a preview.

import { addDataFile } from "../canvas/editCommands";
import { RowTable } from "../run/RowTable";
import { pluralize } from "../ui/format";
import { isolateBidi } from "../ui/isolateBidi";
import { Modal } from "../ui/Modal";
import { ProblemText } from "../ui/ProblemText";
import { DELIMITERS, hasDelimiter } from "./delimiter";
import { closePreview, previewFile, usePreview } from "./preview";
import { SHOWN_ROWS, SOURCE_ROWS } from "./sampleFlow";

export function PreviewDialog() {
  const { title, file, delimiter, sample, failure, unread } = usePreview();
  return (
    <Modal title={isolateBidi(title)} onClose={closePreview} isWide>
      {sample === undefined && failure === undefined && (
        <p className="quiet" role="status">
          Reading…
        </p>
      )}
      {failure !== undefined && (
        <p className="wrong-text" role="alert">
          <ProblemText problem={failure} />
        </p>
      )}
      {unread !== undefined && (
        <p className="wrong-text" role="alert">
          <ProblemText problem={unread} />{" "}
          <span className="remedy">
            It is a null below. A flow ends there, unless <code>on_error</code> of its scan is{" "}
            <code>null</code> or <code>skip</code>.
          </span>
        </p>
      )}
      {sample !== undefined && (
        <>
          <p className="quiet">{previewNote(sample.rows.length, file)} Nothing was written.</p>
          {/* Reached by Tab, so that the arrow keys scroll it. */}
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
          <section className="preview-rows" tabIndex={0} aria-label="Rows">
            <RowTable sample={sample} />
          </section>
        </>
      )}
      <div className="row">
        {file !== undefined && hasDelimiter(file) && (
          <label>
            Delimiter{" "}
            <select
              value={delimiter ?? (/\.tsv/i.test(file) ? "\t" : ",")}
              onChange={({ target }) => void previewFile(file, target.value)}
            >
              {[...DELIMITERS].map(([sign, name]) => (
                <option key={sign} value={sign}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        {file !== undefined && (
          <button
            type="button"
            className="primary"
            onClick={() => {
              closePreview();
              addDataFile(file, undefined, delimiter);
            }}
          >
            Add to the flow
          </button>
        )}
        <button type="button" onClick={closePreview}>
          Close
        </button>
      </div>
    </Modal>
  );
}

/** What the rows are; none of them is no error. */
function previewNote(rows: number, file: string | undefined): string {
  const of = `of the first ${SOURCE_ROWS.toLocaleString("en")} rows of each source`;
  if (file !== undefined && rows === 0) return "The file has columns, but no rows.";
  if (rows === 0) return `No row ${of} comes here: look at the conditions before.`;
  const count = `${pluralize(rows, "row")}, at most ${SHOWN_ROWS}`;
  return file === undefined ? `${count}, ${of}.` : `${count}.`;
}
