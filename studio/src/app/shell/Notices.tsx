// Notices above the page: lost connection, changed files, save conflicts, scripts to confirm.

import { runScript, settleConflict, useOpened } from "../files/openFile";
import { dismiss, useServer } from "../state/serverStore";
import { showDialog } from "../state/viewStore";
import { apart } from "../ui/isolateBidi";
import { Modal } from "../ui/Modal";

const LINKS = {
  lost: "The server does not answer. What is drawn is kept; the page looks for it.",
  locked: "The server does not know this browser. Open the link that `euphrates studio` prints.",
} as const;

export function Notices() {
  const { link, notices } = useServer();
  return (
    <div className="notices" aria-live="polite">
      {(link === "lost" || link === "locked") && <p className="notice refused">{LINKS[link]}</p>}
      {notices.map((notice) => (
        <p className="notice" key={notice.text}>
          {notice.text}
          <span className="row">
            {notice.answers?.map(({ label, act }) => (
              <button
                type="button"
                key={label}
                onClick={() => {
                  dismiss(notice);
                  act();
                }}
              >
                {label}
              </button>
            ))}
            <button type="button" className="small" onClick={() => dismiss(notice)}>
              Close
            </button>
          </span>
        </p>
      ))}
      <Conflict />
      <Untold />
    </div>
  );
}

/** Asks which version to keep when the file on disk is not the one that was opened. */
function Conflict() {
  const conflict = useOpened(({ conflict }) => conflict);
  if (conflict === undefined) return null;
  const { path } = conflict;
  const answer = (what: "mine" | "theirs" | "neither") => () => void settleConflict(what);
  return (
    <Modal title={`${apart(path)} is not what you have seen`} onClose={answer("neither")}>
      <p>Another has changed it, or made it, in the meantime. Which one is to stay?</p>
      <div className="row wrap">
        <button type="button" onClick={answer("mine")}>
          Replace it by mine
        </button>
        <button type="button" onClick={answer("theirs")}>
          Open theirs
        </button>
        <button
          type="button"
          onClick={() => {
            void settleConflict("neither");
            showDialog("save");
          }}
        >
          Save mine elsewhere…
        </button>
        <button type="button" onClick={answer("neither")}>
          Neither
        </button>
      </div>
    </Modal>
  );
}

/** Asks before running a script whose flow cannot be read without running it. */
function Untold() {
  const path = useOpened(({ untold }) => untold);
  if (path === undefined) return null;
  const leave = () => useOpened.setState({ untold: undefined });
  return (
    <Modal title={`Run ${apart(path)} to see its flow?`} onClose={leave}>
      <p>
        Reading it does not tell its flow. Running it does all that is written in it, with your
        rights: run it only if you trust it.
      </p>
      <div className="row">
        <button type="button" onClick={() => void runScript(path)}>
          Run it
        </button>
        <button type="button" onClick={leave}>
          Leave it
        </button>
      </div>
    </Modal>
  );
}
