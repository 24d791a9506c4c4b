package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule, its runs, and the reason if it does not run",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.GetSchedule, &taskenginev1.GetScheduleRequest{Name: args[0]})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res.GetSchedule())
				}
				_, err = fmt.Fprint(a.stdout, scheduleText(res.GetSchedule()))
				return err
			})
		},
	}
}

// facts are lines of text that have a name each.
type facts struct{ strings.Builder }

// add writes a line, unless it says nothing.
func (f *facts) add(name, value string) {
	if value != "" {
		fmt.Fprintf(f, "%-10s %s\n", name, clean(value))
	}
}

// scheduleText describes a schedule as lines of text.
func scheduleText(s *taskenginev1.Schedule) string {
	d, f := s.GetDefinition(), new(facts)
	f.add("schedule", s.GetName())
	f.describe(d)
	if p := s.GetPaused(); p != nil {
		f.add("paused", strings.TrimSuffix("since "+timeWords(p.GetSince(), d)+": "+p.GetReason(), ": "))
	} else {
		f.add("next", orNone(timeWords(s.GetNext(), d)))
	}
	if last := s.GetLast(); last != nil {
		f.add("last", timeWords(last.GetTime(), d)+", task "+last.GetTaskId())
	}
	f.add("fires", fmt.Sprintf("%d; missed %d; left out because of an earlier task %d", s.GetFires(), s.GetMissed(), s.GetOverlapped()))
	for _, r := range s.GetRunning() {
		f.add("running", timeWords(r.GetTime(), d)+", task "+r.GetTaskId())
	}
	if n := len(s.GetWaiting()); n > 0 {
		f.add("waiting", fmt.Sprintf("%d for the end of an earlier task, the first: %s", n, timeWords(s.GetWaiting()[0], d)))
	}
	if n := s.GetOrders(); n > 0 {
		f.add("orders", fmt.Sprintf("%d requests are not carried out yet", n))
	}
	f.add("task", s.GetTaskId())
	if s.GetError() != "" {
		f.add("error", fmt.Sprintf("it cannot run, %d attempts have failed: %s", s.GetAttempt(), s.GetError()))
	}
	return f.String()
}

// describe writes a definition without its default values.
func (f *facts) describe(d *taskenginev1.ScheduleDefinition) {
	f.add("when", whenWords(d))
	if d.GetCron() != "" {
		f.add("", fmt.Sprintf("at a clock change: gap %s, repeat %s", d.GetGap(), d.GetRepeat()))
	}
	if d.GetStart() != nil {
		f.add("start", timeWords(d.GetStart(), d))
	}
	if d.GetEnd() != nil {
		f.add("end", timeWords(d.GetEnd(), d))
	}
	if d.GetJitter() != nil {
		f.add("jitter", "up to "+durationText(d.GetJitter()))
	}
	c := d.GetCatchUp()
	text := c.GetPolicy()
	if c.GetMax() > 0 {
		text += fmt.Sprintf(", at most %d", c.GetMax())
	}
	if c.GetWindow() != nil {
		text += ", not older than " + durationText(c.GetWindow())
	}
	f.add("catch up", text)
	f.add("overlap", d.GetOverlap())
	t := d.GetTask()
	f.add("type", t.GetType())
	f.add("workflow", t.GetWorkflow())
	if t != nil && t.Priority != nil {
		f.add("priority", fmt.Sprint(t.GetPriority()))
	}
	for _, k := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		f.add("header", k+"="+t.GetHeaders()[k])
	}
	if t.GetExpires() != nil {
		f.add("expires", durationText(t.GetExpires())+" after its time")
	}
	content := "payload"
	if t.GetWorkflow() != "" {
		content = "input"
	}
	f.add(content, short(t.GetPayload(), 500))
}
