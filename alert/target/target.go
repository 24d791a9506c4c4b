// Package target sends notifications of alerts: to the log, to a URL, to a command, or by mail. A target that
// returns nil has accepted a notification. After an error it may have accepted it all the same: the caller
// sends it again, with the same ID.
//
// Notifications may contain any text of a task, such as an error message. Targets make it safe for where
// they write it.
package target

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/terminal"
)

// Target sends notifications. It is safe for concurrent use.
type Target interface {
	// Send sends a notification, and returns when it was accepted, or that it was not. It returns soon
	// after ctx has ended.
	Send(ctx context.Context, n alert.Notification) error
}

// Log writes notifications to a log.
type Log struct{ To *slog.Logger }

// Send implements [Target]. It writes a line for each alert.
func (l Log) Send(ctx context.Context, n alert.Notification) error {
	if n.Test {
		l.To.InfoContext(ctx, "test of the alerts", "id", n.ID)
		return nil
	}
	for _, a := range n.Alerts {
		level, what := slog.LevelWarn, "alert"
		if a.Status == alert.Resolved {
			level, what = slog.LevelInfo, "alert resolved"
		}
		attrs := []slog.Attr{slog.String("rule", n.Rule), slog.String("summary", a.Summary)}
		for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
			attrs = append(attrs, slog.String(name, a.Labels[name]))
		}
		attrs = append(attrs, slog.Time("since", a.Since), slog.String("id", n.ID))
		if a.Detail != "" {
			attrs = append(attrs, slog.String("detail", a.Detail))
		}
		l.To.LogAttrs(ctx, level, what, attrs...)
	}
	if n.More > 0 {
		l.To.WarnContext(ctx, "more alerts than are listed", "rule", n.Rule, "more", n.More, "id", n.ID)
	}
	return nil
}

// title returns a notification as one line of text.
func title(n *alert.Notification) string {
	if n.Test {
		return "[taskengine] test"
	}
	return terminal.Line(fmt.Sprintf("[taskengine] %s: %s", n.Rule, n.Summary))
}

// text returns a notification as lines of text.
func text(n *alert.Notification) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "%s\n", terminal.Line(fmt.Sprintf(format, args...))) }
	if n.Test {
		line("This is a test of the alerts of taskengine, sent by node %s.", n.Node)
	}
	for _, a := range n.Alerts {
		line("%s", a.Summary)
		line("  since %s", a.Since.UTC().Format(time.RFC3339))
		if a.Status == alert.Resolved {
			line("  until %s", a.ResolvedAt.UTC().Format(time.RFC3339))
		}
		if a.Detail != "" {
			line("  %s", a.Detail)
		}
		b.WriteString("\n")
	}
	if n.More > 0 {
		line("%d more alerts are not listed.\n", n.More)
	}
	if n.Rule == "" { // a test
		line("node %s, notification %s", n.Node, n.ID)
	} else {
		line("rule %s, node %s, notification %s", n.Rule, n.Node, n.ID)
	}
	return b.String()
}
