package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"github.com/taskengine/taskengine/config"
)

// newLog returns the node's log: text for a terminal, otherwise JSON, unless the
// configuration says which.
func (a *app) newLog(c config.Log) *slog.Logger {
	if c.Format == config.LogText || c.Format == config.LogAuto && a.errTTY {
		return textLog(a.stderr, c.Level, a.colourful())
	}
	return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{
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
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly + ".000", NoColor: !colour}))
}
