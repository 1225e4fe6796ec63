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
  const { title, file, delimiter, sample, failure } = usePreview();
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
      {sample !== undefined && (
        <>
          <p className="quiet">
            {pluralize(sample.rows.length, "row")}, at most {SHOWN_ROWS}
            {file === undefined &&
              `, of the first ${SOURCE_ROWS.toLocaleString("en")} rows of each source`}
            . Nothing was written.
          </p>
          <div className="preview-rows">
            <RowTable sample={sample} />
          </div>
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
