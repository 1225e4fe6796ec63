// Notices above the page: lost connection, changed files, save conflicts, scripts to confirm.

import { resolveConflict, runScript, useOpenFile } from "../files/openFile";
import { dismissNotice, useServer } from "../state/serverStore";
import { showDialog } from "../state/viewStore";
import { isolateBidi } from "../ui/isolateBidi";
import { Modal } from "../ui/Modal";

const LINK_MESSAGES = {
  lost: "The server does not answer. What is drawn is kept; the page looks for it.",
  locked: "The server does not know this browser. Open the link that `euphrates studio` prints.",
} as const;

export function Notices() {
  const { link, notices } = useServer();
  return (
    <div className="notices" aria-live="polite">
      {(link === "lost" || link === "locked") && (
        <p className="notice refused">{LINK_MESSAGES[link]}</p>
      )}
      {notices.map((notice) => (
        <p className="notice" key={notice.text}>
          {notice.text}
          <span className="row">
            {notice.actions?.map(({ label, act }) => (
              <button
                type="button"
                key={label}
                onClick={() => {
                  dismissNotice(notice);
                  act();
                }}
              >
                {label}
              </button>
            ))}
            <button type="button" className="small" onClick={() => dismissNotice(notice)}>
              Close
            </button>
          </span>
        </p>
      ))}
      <ConflictDialog />
      <RunScriptDialog />
    </div>
  );
}

/** Asks which version to keep when the file on disk is not the one that was opened. */
function ConflictDialog() {
  const conflict = useOpenFile(({ conflict }) => conflict);
  if (conflict === undefined) return null;
  const { path } = conflict;
  const answer = (what: "mine" | "theirs" | "neither") => () => void resolveConflict(what);
  return (
    <Modal title={`${isolateBidi(path)} has changed`} onClose={answer("neither")}>
      <p>
        Another program has changed or created it since it was read. Which version should be kept?
      </p>
      <div className="row wrap">
        <button type="button" onClick={answer("mine")}>
          Keep mine
        </button>
        <button type="button" onClick={answer("theirs")}>
          Open theirs
        </button>
        <button
          type="button"
          onClick={() => {
            void resolveConflict("neither");
            showDialog("save");
          }}
        >
          Save mine elsewhere…
        </button>
        <button type="button" onClick={answer("neither")}>
          Cancel
        </button>
      </div>
    </Modal>
  );
}

/** Asks before running a script whose flow cannot be read without running it. */
function RunScriptDialog() {
  const path = useOpenFile(({ scriptToRun }) => scriptToRun);
  if (path === undefined) return null;
  const close = () => useOpenFile.setState({ scriptToRun: undefined });
  return (
    <Modal title={`Run ${isolateBidi(path)} to see its flow?`} onClose={close}>
      <p>
        Reading it does not tell its flow. Running it does all that is written in it, with your
        rights: run it only if you trust it.
      </p>
      <div className="row">
        <button type="button" onClick={() => void runScript(path)}>
          Run it
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </Modal>
  );
}
