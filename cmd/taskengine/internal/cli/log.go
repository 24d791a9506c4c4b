package cli

import (
	"io"
	"log/slog"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/terminal"
)

// newLog returns the node's log: text for a terminal, otherwise JSON, unless the
// configuration says which.
func (a *app) newLog(c config.Log) *slog.Logger {
	if c.Format == config.LogText || c.Format == config.LogAuto && a.errTTY {
		return textLog(a.stderr, c.Level, a.colourful())
	}
	return slog.New(slog.NewJSONHandler(terminal.JSONWriter(a.stderr), &slog.HandlerOptions{
		Level: c.Level, ReplaceAttr: readableDuration,
	}))
}

// readableDuration makes text of durations, which are nanoseconds in JSON otherwise.
func readableDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func textLog(w io.Writer, level slog.Level, colour bool) *slog.Logger {
	return slog.New(terminal.NewHandler(w, terminal.Options{Level: level, Colour: colour}))
}

// warnings returns the log of commands that work on a store without a node: it has warnings and
// errors.
func (a *app) warnings() *slog.Logger { return a.newLog(config.Log{Level: slog.LevelWarn}) }
