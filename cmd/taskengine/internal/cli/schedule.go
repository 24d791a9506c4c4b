package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/schedule/calendar"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// The subcommands of schedule share this file.

// scheduleEdit is a command that changes one schedule and shows it, or many and shows how many.
type scheduleEdit struct {
	verb, past, short, long string
	one                     func(ctx context.Context, c *client, name string) (*taskenginev1.Schedule, error)
	many                    changePart
}

func (e *scheduleEdit) command(a *app) *cobra.Command {
	var of selectFlags
	cmd := &cobra.Command{
		Use: e.verb + " [NAME]", Short: e.short, Long: e.long, Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := of.check(cmd, args); err != nil {
				return err
			}
			return a.with(func(c *client) error {
				if len(args) == 0 {
					return a.changeSchedules(cmd.Context(), c, &of, e.past, e.many)
				}
				s, err := e.one(cmd.Context(), c, args[0])
				if err != nil {
					return err
				}
				return a.showScheduleRows(s)
			})
		},
	}
	of.add(cmd)
	return cmd
}

// showScheduleRows writes schedules as rows, or each as a line of JSON.
func (a *app) showScheduleRows(schedules ...*taskenginev1.Schedule) error {
	if a.json() {
		return printMessages(a, schedules)
	}
	now := time.Now()
	rows := make([][]string, len(schedules))
	for i, s := range schedules {
		rows[i] = []string{
			s.GetName(), addsWords(s.GetDefinition().GetTask()), whenWords(s.GetDefinition()), a.moment(s.GetNext(), now), a.moment(s.GetLast().GetTime(), now),
			fmt.Sprint(s.GetFires()), fmt.Sprint(s.GetMissed()), fmt.Sprint(s.GetOverlapped()), yesNo(s.GetPaused() != nil), s.GetError(),
		}
	}
	return a.printTable([]string{"SCHEDULE", "TYPE", "WHEN", "NEXT", "LAST", "FIRES", "MISSED", "OVERLAPPED", "PAUSED", "ERROR"}, rows, "OVERLAPPED", "MISSED", "FIRES")
}

// addsWords names the type of the tasks of a schedule, or its workflow.
func addsWords(t *taskenginev1.ScheduleTask) string {
	if t.GetWorkflow() != "" {
		return "workflow " + t.GetWorkflow()
	}
	return t.GetType()
}

// whenWords describes the times of a schedule.
func whenWords(d *taskenginev1.ScheduleDefinition) string {
	if d.GetCron() != "" {
		return d.GetCron() + " " + cmp.Or(d.GetTimezone(), "UTC")
	}
	text := "every " + durationText(d.GetEvery())
	if d.GetAnchor() != nil {
		text += " from " + when(d.GetAnchor())
	}
	return text
}

// timeWords writes a time in UTC, and by the clock in the zone of a schedule if that is another one.
func timeWords(t *timestamppb.Timestamp, d *taskenginev1.ScheduleDefinition) string {
	zone, err := calendar.LoadLocation(cmp.Or(d.GetTimezone(), "UTC"))
	if t == nil || err != nil || zone == time.UTC {
		return when(t)
	}
	return fmt.Sprintf("%s (%s in %s)", when(t), t.AsTime().In(zone).Format(time.RFC3339), d.GetTimezone())
}

// scheduleOutcome is the effect of a command on a schedule: created, updated, unchanged or deleted.
type scheduleOutcome struct{ name, outcome string }

// showOutcomes writes the effects on schedules.
func (a *app) showOutcomes(all ...scheduleOutcome) error {
	rows := make([][]string, len(all))
	for i, o := range all {
		if rows[i] = []string{o.name, o.outcome}; a.json() {
			if err := a.printJSON(jsonObject{{"name", o.name}, {"outcome", o.outcome}}); err != nil {
				return err
			}
		}
	}
	if a.json() || len(rows) == 0 {
		return nil
	}
	return a.printTable([]string{"SCHEDULE", "OUTCOME"}, rows)
}
