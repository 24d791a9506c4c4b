package config

import (
	"time"

	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/calendar"
	"github.com/taskengine/taskengine/task"
)

var schedulesTable = table[schedule.Definition]{of: "schedules", keys: isScheduleName, likely: "NAME", is: scheduleTable}

var scheduleTable = &object{what: "a schedule", rivals: [][]string{{"cron", "every"}, {"type", "workflow"}}, fields: []field{
	{name: "cron", doc: "When the schedule fires, as an expression with five fields, or six with the seconds first: see [Schedules](schedules.md).", otherwise: "`every` is required", is: words("a cron expression, such as 30 2 * * *", notEmpty), at: in(func(s *schedule.Definition) *string { return &s.Cron })},
	{name: "timezone", doc: "The time zone of `cron`, a name of the IANA time zone database.", otherwise: "UTC", is: words("a time zone, such as Europe/Berlin", isTimeZone), at: in(func(s *schedule.Definition) *string { return &s.TimeZone })},
	{name: "gap", doc: "The effect of a time of `cron` that a clock change leaves out: `run_after` fires when the clock has passed it, `skip` does not fire.", def: "run_after", is: oneOf(nil, option[calendar.Gap]{"run_after", calendar.RunAfter}, option[calendar.Gap]{"skip", calendar.Skip}), at: in(func(s *schedule.Definition) *calendar.Gap { return &s.Gap })},
	{name: "repeat", doc: "The effect of a time of `cron` that a clock change repeats: the schedule fires at the `first` or at `both`.", def: "first", is: oneOf(nil, option[calendar.Repeat]{"first", calendar.First}, option[calendar.Repeat]{"both", calendar.Both}), at: in(func(s *schedule.Definition) *calendar.Repeat { return &s.Repeat })},
	{name: "every", doc: "Fires at a fixed interval, of at least a second. Clock changes do not matter to it.", otherwise: "`cron` is required", is: period("a duration, such as 15m", true), at: in(func(s *schedule.Definition) *time.Duration { return &s.Every })},
	{name: "anchor", doc: "One of the times of `every`, which determines all others.", otherwise: "`1970-01-01T00:00:00Z`", is: moment(), at: in(func(s *schedule.Definition) *time.Time { return &s.Anchor })},
	{name: "start", doc: "The schedule does not fire before this time.", otherwise: "no bound", is: moment(), at: in(func(s *schedule.Definition) *time.Time { return &s.Start })},
	{name: "end", doc: "The schedule does not fire after this time.", otherwise: "no bound", is: moment(), at: in(func(s *schedule.Definition) *time.Time { return &s.End })},
	{name: "jitter", doc: "The task of a fire starts later by a part of this, which depends on the schedule and the time of the fire.", def: "0s", is: period(aDuration, false), at: in(func(s *schedule.Definition) *time.Duration { return &s.Jitter })},
	{name: "catch_up", doc: "The effect of missed times, for instance because no node was alive: a task is added for the `latest` one, for none (`skip`), or for `all`.", def: "latest", is: short{catchUpWord(), catchUpTable}, at: in(func(s *schedule.Definition) *schedule.CatchUp { return &s.CatchUp })},
	{name: "overlap", doc: "The effect of a fire while the task of an earlier fire has not ended: `skip` adds no task, `queue` adds it when the earlier one has ended, `cancel_old` cancels the earlier one, `allow` adds it.", def: "skip", is: oneOf(nil, option[schedule.Overlap]{"skip", schedule.Skip}, option[schedule.Overlap]{"queue", schedule.Queue}, option[schedule.Overlap]{"cancel_old", schedule.CancelOld}, option[schedule.Overlap]{"allow", schedule.Allow}), at: in(func(s *schedule.Definition) *schedule.Overlap { return &s.Overlap })},
	{name: "type", doc: "The type of the tasks.", otherwise: "`workflow` is required", is: words("the name of a type", notEmpty), at: in(func(s *schedule.Definition) *string { return &s.Task.Type })},
	{name: "workflow", doc: "The name of a workflow of `workflows` in place of `type`. A fire adds it with the definition that the node has then: see [Schedules](schedules.md#workflows).", otherwise: "`type` is required", is: words("the name of a workflow", notEmpty), at: in(func(s *schedule.Definition) *string { return &s.Task.Workflow })},
	{name: "input", doc: "The input of `workflow`: any value. Strings in it may have placeholders.", otherwise: "none", is: anything{}, at: in(func(s *schedule.Definition) *string { return &s.Task.Payload })},
	{name: "payload", doc: "The payload of the tasks: any value, which is written as JSON. Strings in it may have placeholders, such as `{{date}}`: see [Schedules](schedules.md).", otherwise: "empty", is: anything{}, at: in(func(s *schedule.Definition) *string { return &s.Task.Payload })},
	{name: "priority", doc: "The priority of the tasks: 0 runs first, 9 last.", otherwise: "that of the type", is: maybe[uint8]{whole[uint8](int64(task.HighestPriority), int64(task.LowestPriority), "a number")}, at: in(func(s *schedule.Definition) **uint8 { return &s.Task.Priority })},
	{name: "headers", doc: "Headers of the tasks.", is: table[string]{of: "headers", likely: "NAME", is: words("string", nil)}, at: in(func(s *schedule.Definition) *map[string]string { return &s.Task.Headers })},
	{name: "expires", doc: "A task that has not begun this long after its time is not run any more, and becomes an error. 0s is no bound.", def: "0s", is: period(aDuration, false), at: in(func(s *schedule.Definition) *time.Duration { return &s.Task.Expires })},
}}

var catchUpTable = &object{what: "catch_up", fields: []field{
	{name: "policy", doc: "`latest`, `skip` or `all`, as above.", def: "latest", is: catchUpWords(), at: in(func(c *schedule.CatchUp) *schedule.Policy { return &c.Policy })},
	{name: "max", doc: "How many tasks `all` adds at once, for the newest of the missed times.", otherwise: "100", is: whole[int](1, schedule.MaxWaiting, "a number"), at: in(func(c *schedule.CatchUp) *int { return &c.Max })},
	{name: "window", doc: "Times longer ago than this are left out. 0s is no bound.", def: "0s", is: period(aDuration, false), at: in(func(c *schedule.CatchUp) *time.Duration { return &c.Window })},
}}

func catchUpWords() value[schedule.Policy] {
	return oneOf(nil, option[schedule.Policy]{"latest", schedule.Latest}, option[schedule.Policy]{"skip", schedule.None}, option[schedule.Policy]{"all", schedule.All})
}

// catchUpWord is a policy as the short form of catch_up.
func catchUpWord() value[schedule.CatchUp] {
	v := catchUpWords()
	return value[schedule.CatchUp]{want: v.want, json: v.json, parse: func(t text) (schedule.CatchUp, error) {
		p, err := v.parse(t)
		return schedule.CatchUp{Policy: p}, err
	}}
}

// isScheduleName accepts the name of a schedule.
func isScheduleName(s string) error { return schedule.CheckName(s) }

// isTimeZone accepts the name of a time zone.
func isTimeZone(s string) error {
	_, err := calendar.LoadLocation(s)
	return err
}
