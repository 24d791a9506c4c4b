package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// watchEvery is how long --watch waits between two looks, unless --every says otherwise.
const watchEvery = 2 * time.Second

// tabular are the commands that have the flags of tables. Those that ask a node can be watched.
func tabular() (all, watched []string) {
	watched = []string{
		"task list", "task count", "task tree", "errors", "bulk list", "document list", "key list", "key show", "type list", "node list", "worker list",
		"limit list", "alert list", "schedule list", "source list", "source show", "token list", "workflow show",
	}
	return append([]string{"schedule preview", "shards list", "bench list"}, watched...), watched
}

// addTableFlags adds the flags of tables to the commands below c that show some.
func (a *app) addTableFlags(c *cobra.Command) {
	all, watched := tabular()
	for _, sub := range c.Commands() {
		a.addTableFlags(sub)
		_, path, _ := strings.Cut(sub.CommandPath(), " ")
		if !slices.Contains(all, path) {
			continue
		}
		sub.Flags().StringSliceVar(&a.table.columns, "columns", nil, "only these columns of the table, in this order, such as id,state,error")
		sub.Flags().BoolVar(&a.table.noHeaders, "no-headers", false, "no headings above the table")
		if slices.Contains(watched, path) {
			a.addWatch(sub)
		}
	}
}

// addWatch makes a command repeatable.
func (a *app) addWatch(cmd *cobra.Command) {
	once := cmd.RunE
	var isWatched bool
	every := duration(watchEvery)
	cmd.Flags().BoolVarP(&isWatched, "watch", "w", false, "show it again and again, until the command is interrupted")
	cmd.Flags().Var(&every, "every", "with --watch: how long to wait between two looks")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !isWatched && cmd.Flags().Changed("every"):
			return exit.Errorf(exit.Usage, "--every is for --watch")
		case !isWatched:
			return once(cmd, args)
		case a.json():
			return exit.Errorf(exit.Usage, "--watch is for tables, and not for -o %s; `taskengine events` writes the changes of tasks", a.output.kind())
		case every <= 0:
			return exit.Errorf(exit.Usage, "--every must be longer than 0s")
		}
		w := &watch{app: a, every: time.Duration(every), look: func() error { return once(cmd, slices.Clone(args)) }}
		return w.run(cmd.Context())
	}
}

// watch shows the output of a command again and again.
type watch struct {
	*app
	every time.Duration
	look  func() error
	shown bool
}

// run ends when the context does. It returns the error of the first look, but goes on after later ones.
func (w *watch) run(ctx context.Context) error {
	last := ""
	for {
		text, err := w.capture()
		switch {
		case err != nil && !w.shown && exit.Code(err) != exit.Partial:
			if _, err := io.WriteString(w.stdout, text); err != nil {
				return err
			}
			return err
		case err != nil && exit.Code(err) != exit.Partial:
			text = last + "\n" + cleanLines(err.Error()) + "\n"
		default:
			last = text
		}
		if err := w.draw(text); err != nil {
			return err
		}
		if err := pause(ctx, w.every); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}

// capture returns what a look writes, with its notes.
func (w *watch) capture() (string, error) {
	out, errs := w.stdout, w.stderr
	defer func() { w.stdout, w.stderr = out, errs }()
	var text bytes.Buffer
	w.stdout, w.stderr = &text, &text
	err := w.look()
	return text.String(), err
}

// draw shows a look: on a terminal in place of the one before, else after it.
func (w *watch) draw(text string) error {
	first := !w.shown
	w.shown = true
	if !w.outTTY || w.isDumb() {
		if !first {
			text = "\n" + text
		}
		_, err := io.WriteString(w.stdout, text)
		return err
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	head := fmt.Sprintf("%s, every %s; Ctrl-C ends it", time.Now().Format(time.TimeOnly), durationOf(w.every))
	if room := max(1, w.height()-3); len(lines) > room { // the heading, an empty line, and the line of the cursor
		more := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("and %d more lines", more))
	}
	const home, rest, below = "\x1b[H", "\x1b[K", "\x1b[J"
	var b strings.Builder
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString(home)
	for _, line := range append([]string{cut(head, w.width()), ""}, lines...) {
		b.WriteString(line + rest + "\n")
	}
	b.WriteString(below)
	_, err := io.WriteString(w.stdout, b.String())
	return err
}
