package engine

import (
	"log/slog"
	"sync"
)

// maxWarnings is how many warnings are kept until a writer logs them.
const maxWarnings = 100

// warnings are log lines about what was found with Engine.mu held. A writer logs them without
// it, because a log may be slow.
type warnings struct {
	mu    sync.Mutex // locked after Engine.mu
	lines []warning  // guarded by mu
}

type warning struct {
	text string
	args []any // as of [slog.Logger.Warn]
}

// add adds a line. It drops the line if there are too many.
func (w *warnings) add(text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) < maxWarnings {
		w.lines = append(w.lines, warning{text, args})
	}
}

// log logs the lines and removes them.
func (w *warnings) log(to *slog.Logger) {
	w.mu.Lock()
	lines := w.lines
	w.lines = nil
	w.mu.Unlock()
	for _, l := range lines {
		to.Warn(l.text, l.args...)
	}
}
