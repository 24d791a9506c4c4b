package task

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Reporter receives the reports of a handler before its attempt ends. The context of
// [Handler.Handle] carries one. Its methods may be called from any goroutine until Handle returns.
// Handlers use [ReportProgress], [SaveCheckpoint] and [Logger].
type Reporter interface {
	// Progress reports the progress of the attempt. It does not wait.
	Progress(Progress)
	// Checkpoint saves data for the next attempt, in case this one does not finish the task.
	// It returns when the data is as durable as the reporter can make it. It keeps no
	// reference to data.
	Checkpoint(data []byte) error
	// Log adds a line to the log of the task. It does not wait.
	Log(slog.Record)
}

// ReporterKey is the key of a context's [Reporter].
type ReporterKey struct{}

// ReporterOf returns the reporter of ctx, nil if it has none.
func ReporterOf(ctx context.Context) Reporter {
	r, _ := ctx.Value(ReporterKey{}).(Reporter)
	return r
}

// ReportProgress reports the progress of the attempt of ctx: done of total, in a unit that the
// handler chooses. total is 0 if it is unknown. ReportProgress may be called often: of several calls
// within a second only the last is written.
func ReportProgress(ctx context.Context, done, total uint64, message string) {
	if r := ReporterOf(ctx); r != nil {
		r.Progress(Progress{Done: done, Total: total, Message: message, At: time.Now()})
	}
}

// SaveCheckpoint saves data for the next attempt, in case the attempt of ctx does not finish the
// task. The next attempt finds it in [Task.Checkpoint]. Empty data removes the checkpoint.
func SaveCheckpoint(ctx context.Context, data []byte) error {
	if r := ReporterOf(ctx); r != nil {
		return r.Checkpoint(data)
	}
	return nil
}

// Logger returns a logger that writes to the log of the task of ctx.
func Logger(ctx context.Context) *slog.Logger {
	if r := ReporterOf(ctx); r != nil {
		return slog.New(&logHandler{to: r})
	}
	return slog.New(slog.DiscardHandler)
}

// logHandler passes records to a reporter, with the attributes of [slog.Logger.With].
type logHandler struct {
	to    Reporter
	steps []step
}

// step is one With or WithGroup.
type step struct {
	group string // if not "", the attributes of later steps are in it
	attrs []slog.Attr
}

func (*logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	if len(h.steps) == 0 {
		h.to.Log(r)
		return nil
	}
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	for _, s := range slices.Backward(h.steps) {
		switch {
		case s.group == "":
			attrs = append(slices.Clone(s.attrs), attrs...)
		case len(attrs) > 0: // an empty group is left out
			attrs = []slog.Attr{slog.GroupAttrs(s.group, attrs...)}
		}
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	out.AddAttrs(attrs...)
	h.to.Log(out)
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.with(step{attrs: attrs}) }

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(step{group: name})
}

func (h *logHandler) with(s step) slog.Handler {
	return &logHandler{h.to, append(slices.Clone(h.steps), s)}
}
