package programlog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// RecordOf returns the record of a line that a handler program sent in a frame, cut to the bounds of a line.
func RecordOf(l *wire.LogLine) slog.Record {
	at := time.Now()
	if l.GetTime() != 0 {
		at = time.UnixMicro(l.GetTime())
	}
	record := slog.NewRecord(at, slog.Level(l.GetLevel()), Printable(l.GetMessage()), 0)
	for _, k := range slices.Sorted(maps.Keys(l.GetFields())) {
		record.AddAttrs(slog.String(k, l.GetFields()[k]))
	}
	record, _ = fit(record)
	return record
}

// Emit adds a line to the log of a task, unless reporter is nil, and to log, the throttled log of the program. The log of
// a task has limits of its own.
func Emit(log *slog.Logger, reporter task.Reporter, id task.ID, r slog.Record) {
	if reporter != nil {
		reporter.Log(r.Clone())
	}
	ctx := context.Background()
	if !log.Enabled(ctx, r.Level) {
		return
	}
	if !id.IsZero() {
		r.AddAttrs(slog.String("task_id", id.String()))
	}
	_ = log.Handler().Handle(ctx, r) // as the logger itself does
}

// fit returns r cut to the bounds of a line, and its size in bytes.
func fit(r slog.Record) (out slog.Record, size int) {
	if size = sizeOf(r); size <= messageBytes && r.NumAttrs() <= attrsCount {
		return r, size
	}
	message := Shorten(r.Message, messageBytes)
	out = slog.NewRecord(r.Time, r.Level, message, r.PC)
	left, missing := attrsBytes, 0
	r.Attrs(func(a slog.Attr) bool {
		if left <= 0 || out.NumAttrs() == attrsCount {
			missing++
			return true
		}
		a.Key = Shorten(a.Key, min(left, messageBytes/8))
		left -= len(a.Key)
		if v := a.Value.Resolve(); len(textOf(v)) > left {
			a.Value = slog.StringValue(Shorten(textOf(v), max(0, left)))
		}
		left -= len(textOf(a.Value))
		out.AddAttrs(a)
		return true
	})
	if missing > 0 {
		out.AddAttrs(slog.Int("fields_cut", missing))
	}
	return out, len(message) + attrsBytes - left
}

// sizeOf returns the approximate size of a record in bytes.
func sizeOf(r slog.Record) int {
	size := len(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		size += len(a.Key) + len(textOf(a.Value))
		return true
	})
	return size
}

// textOf formats a value; "" for kinds that are always short.
func textOf(v slog.Value) string {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString:
		return v.String()
	case slog.KindAny, slog.KindGroup:
		return fmt.Sprint(v.Any())
	}
	return ""
}

// Shorten returns s if it has at most most bytes. Otherwise it cuts s there and appends how many bytes it cut.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + fmt.Sprintf("… (%d bytes cut)", len(s)-end)
}

// Printable replaces invalid UTF-8, and control characters other than newlines and tabs.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r == 0x7f {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}
