package access

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// interval is how often a watched file is looked at.
const interval = time.Second

// Watched are the tokens of a file that may be changed.
type Watched struct {
	path    string
	log     *slog.Logger
	tokens  atomic.Pointer[Tokens]
	seen    fs.FileInfo // of the goroutine of Watch: the file that was read last
	trouble string      // of the goroutine of Watch: why the file cannot be used as it is; "" if it can
}

// Open reads the tokens of a file.
func Open(path string, log *slog.Logger) (*Watched, error) {
	w := &Watched{path: path, log: log}
	w.seen, _ = os.Stat(path) // before reading: a change in between is found later
	tokens, err := Read(path)
	if err != nil {
		return nil, err
	}
	w.tokens.Store(tokens)
	return w, nil
}

// Tokens returns the tokens of the file as it was when it could be used last.
func (w *Watched) Tokens() *Tokens { return w.tokens.Load() }

// Watch reads the file again within a second or so of each change, until ctx ends. While the file cannot be used, the
// tokens from before are valid, and the log has one line for each reason.
func (w *Watched) Watch(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look reads the file if it was changed.
func (w *Watched) look() {
	now, err := os.Stat(w.path)
	if err == nil && w.trouble == "" && w.seen != nil && os.SameFile(now, w.seen) && now.ModTime().Equal(w.seen.ModTime()) && now.Size() == w.seen.Size() {
		return
	}
	tokens, err := Read(w.path)
	if err != nil {
		if w.trouble != err.Error() {
			w.trouble = err.Error()
			w.log.Error("the file of tokens was changed and cannot be used; the tokens from before are valid", "file", w.path, "error", err)
		}
		return
	}
	w.seen, w.trouble = now, ""
	w.tokens.Store(tokens)
	w.log.Info("the file of tokens was read again", "file", w.path, "tokens", len(tokens.list))
}
