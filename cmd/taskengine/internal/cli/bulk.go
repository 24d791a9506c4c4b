package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// bulkFlags are the flags of commands that change tasks by their ids, or those that a filter selects.
type bulkFlags struct {
	where          string
	types          []string
	rate           rate
	name           string
	dryRun, detach bool
}

func (f *bulkFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.where, "where", "", "all tasks that this filter selects, in place of ID")
	cmd.Flags().StringSliceVar(&f.types, "type", nil, "with --where: only tasks of this type; may be given more than once")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --where: only say which tasks it would change")
	f.addJob(cmd, "with --where: ")
}

// addJob adds the flags of the job. Their descriptions begin with when.
func (f *bulkFlags) addJob(cmd *cobra.Command, when string) {
	cmd.Flags().Var(&f.rate, "rate", when+"at most so many tasks in a time, such as 50/s")
	cmd.Flags().BoolVar(&f.detach, "detach", false, when+"do not wait for the end of the job")
	cmd.Flags().StringVar(&f.name, "name", "", when+"the name of the job; the same command with it starts no second job")
}

// check returns an error unless either ids or a filter is given.
func (f *bulkFlags) check(cmd *cobra.Command, ids []string) error {
	isMany := cmd.Flags().Changed("where")
	switch {
	case isMany && len(ids) > 0:
		return exit.Errorf(exit.Usage, "give either ID or --where")
	case !isMany && len(ids) == 0:
		return exit.Errorf(exit.Usage, "ID is missing; want %s", cmd.UseLine())
	case isMany:
		return nil
	}
	for _, name := range []string{"type", "dry-run", "rate", "detach", "name"} {
		if cmd.Flags().Changed(name) {
			return exit.Errorf(exit.Usage, "--%s is for --where", name)
		}
	}
	return nil
}

// rate is a flag for tasks in a time; 0 is as fast as possible.
type rate float64

// String implements pflag.Value.
func (r *rate) String() string {
	if *r == 0 {
		return ""
	}
	return paceText(float64(*r))
}

// Set implements pflag.Value.
func (r *rate) Set(s string) error {
	if s == "0" || s == "none" {
		*r = 0
		return nil
	}
	got, err := config.ParseRate(s)
	if err == nil {
		*r = rate(float64(got.Count) / got.Per.Seconds())
	}
	return err
}

// Type implements pflag.Value.
func (r *rate) Type() string { return "rate" }

// paceText shows tasks in a second as a rate.
func paceText(perSecond float64) string {
	switch {
	case perSecond == 0:
		return ""
	case perSecond >= 1:
		return units.Digits(perSecond) + "/s"
	case perSecond >= 1./60:
		return units.Digits(perSecond*60) + "/m"
	}
	return units.Digits(perSecond*3600) + "/h"
}

// orderBulk previews or starts a job, and waits for its end. It is an error if the job was not for all of the tasks with ids, if these are given.
func (a *app) orderBulk(cmd *cobra.Command, c *client, f *bulkFlags, o *taskenginev1.BulkOrder, ids ...string) error {
	if f.dryRun {
		res, err := call(cmd.Context(), c, c.PreviewBulkJob, &taskenginev1.PreviewBulkJobRequest{Order: o})
		if err != nil {
			return err
		}
		return a.showPreview(o, res)
	}
	res, err := call(cmd.Context(), c, c.StartBulkJob, &taskenginev1.StartBulkJobRequest{Order: o, Name: f.name, Rate: float64(f.rate), By: operator()})
	if err != nil {
		return err
	}
	j := res.GetJob()
	if f.detach {
		return a.showJobs(j)
	}
	a.note("bulk job %s: %s %s; it goes on if this command ends", j.GetName(), j.GetVerb(), counted(j.GetTotal(), j.GetTotalComplete()))
	err = a.waitForJob(cmd, c, j)
	if missing := int64(len(ids)) - j.GetTotal(); err == nil && missing > 0 {
		return exit.Errorf(exit.NotFound, "%d of %d tasks do not exist, or were erased before", missing, len(ids))
	}
	return err
}

// counted shows how many tasks there are, with their unit.
func counted(n int64, complete bool) string {
	if n == 1 && complete {
		return "1 task"
	}
	return amount(n, complete) + " tasks"
}

// amount shows how many tasks there are, as a number.
func amount(n int64, complete bool) string {
	if !complete {
		return fmt.Sprint("more than ", n)
	}
	return fmt.Sprint(n)
}

// showPreview writes which tasks a job would change.
func (a *app) showPreview(o *taskenginev1.BulkOrder, res *taskenginev1.PreviewBulkJobResponse) error {
	if a.json() {
		return a.printMessage(res)
	}
	var states []string
	for s, n := range res.GetStates() {
		states = append(states, fmt.Sprintf("%s %d", s, n))
	}
	slices.Sort(states)
	in := ""
	if len(states) > 0 {
		in = ": " + strings.Join(states, ", ")
	}
	if _, err := fmt.Fprintf(a.stdout, "%s would be changed by %s%s\n", counted(res.GetTasks(), res.GetComplete()), clean(o.GetVerb()), clean(in)); err != nil {
		return err
	}
	for _, reason := range slices.Sorted(maps.Keys(res.GetLeft())) {
		what := "would stay as before"
		if o.GetVerb() == "set" {
			what = "could not be undone"
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %s: %s\n", counted(res.GetLeft()[reason], true), what, clean(reason)); err != nil {
			return err
		}
	}
	a.note("the filter is: %s\n%s", res.GetWhere(), howFound(res.GetRead(), res.GetTotal(), res.GetIndex()))
	if kinds := res.GetKinds(); len(kinds) > 0 {
		var rows [][]string
		for _, k := range kinds {
			rows = append(rows, []string{k.GetKind()[:8], fmt.Sprint(k.GetTasks()), k.GetSample(), k.GetPattern()})
		}
		if err := a.printTable([]string{"KIND", "TASKS", "SAMPLE", "ERROR"}, rows, "SAMPLE"); err != nil {
			return err
		}
		return nil
	}
	return a.showTasks(res.GetSamples()...)
}

// pollEvery is how long the command waits between two looks at a job.
const pollEvery = time.Second / 4

// waitForJob waits until a job has ended or was paused, and shows it.
func (a *app) waitForJob(cmd *cobra.Command, c *client, j *taskenginev1.BulkJob) error {
	said := time.Now()
	problem := ""
	for j.GetPhase() == "running" {
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(pollEvery):
		}
		res, err := call(cmd.Context(), c, c.GetBulkJob, &taskenginev1.GetBulkJobRequest{Name: j.GetName()})
		if err != nil {
			return err
		}
		if j = res.GetJob(); time.Since(said) > 5*time.Second || j.GetProblem() != problem {
			said, problem = time.Now(), j.GetProblem()
			a.note("%s", progressOf(j))
		}
	}
	if err := a.showJobs(j); err != nil {
		return err
	}
	for _, one := range j.GetRefusals() {
		a.note("%s: %s", one.GetTaskId(), one.GetReason())
	}
	switch refused := j.GetRefused(); {
	case j.GetPhase() == "ended":
		return exit.Errorf(exit.Failure, "the bulk job %s was ended by hand: %s", j.GetName(), j.GetProblem())
	case refused > int64(len(j.GetRefusals())):
		return exit.Errorf(exit.NotAllowed, "%d tasks were refused: taskengine task logs %s has all of them", refused, j.GetTaskId())
	case refused > 0:
		return exit.Errorf(exit.NotAllowed, "%d tasks were refused", refused)
	}
	return nil
}

func doneOf(j *taskenginev1.BulkJob) int64 {
	return j.GetChanged() + j.GetSkipped() + j.GetRefused() + j.GetUnclear()
}

// progressOf words how far a job is.
func progressOf(j *taskenginev1.BulkJob) string {
	text := fmt.Sprintf("%d of %s", doneOf(j), counted(max(j.GetTotal(), doneOf(j)), j.GetTotalComplete()))
	if p := j.GetProblem(); p != "" {
		text += "; it does not go on: " + p
	}
	return text
}

// showJobs writes jobs as rows, or each as a line of JSON.
func (a *app) showJobs(all ...*taskenginev1.BulkJob) error {
	if a.json() {
		return printMessages(a, all)
	}
	rows := make([][]string, len(all))
	for i, j := range all {
		rows[i] = []string{
			j.GetName(), j.GetVerb(), j.GetPhase(), fmt.Sprint(j.GetChanged()), fmt.Sprint(j.GetSkipped()), fmt.Sprint(j.GetRefused()), amount(j.GetTotal(), j.GetTotalComplete()),
			paceText(j.GetRate()), j.GetBy(), j.GetWhere(),
		}
	}
	return a.printTable([]string{"NAME", "VERB", "PHASE", "CHANGED", "SKIPPED", "REFUSED", "OF", "RATE", "BY", "WHERE"}, rows, "SKIPPED", "RATE")
}

// showJob writes everything about one job.
func (a *app) showJob(j *taskenginev1.BulkJob) error {
	if a.json() {
		return a.showJobs(j)
	}
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, clean(value))
		}
	}
	field("name", j.GetName())
	field("verb", j.GetVerb())
	field("phase", j.GetPhase())
	field("problem", j.GetProblem())
	field("undoes", j.GetUndoes())
	field("where", j.GetWhere())
	field("reason", j.GetReason())
	field("at", when(j.GetAt()))
	field("by", j.GetBy())
	field("rate", paceText(j.GetRate()))
	field("ordered", when(j.GetOrderedAt()))
	field("begun", when(j.GetBegunAt()))
	field("ended", when(j.GetEndedAt()))
	field("total", counted(j.GetTotal(), j.GetTotalComplete()))
	field("changed", fmt.Sprint(j.GetChanged()))
	field("skipped", fmt.Sprintf("%d, which were gone or did not match any more", j.GetSkipped()))
	field("refused", fmt.Sprint(j.GetRefused()))
	if n := j.GetUnclear(); n > 0 {
		field("unclear", fmt.Sprintf("%d, of which a node that died has left open whether the job has changed them", n))
	}
	field("read", fmt.Sprint(j.GetRead()))
	field("task", j.GetTaskId())
	for _, e := range j.GetHistory() {
		text := when(e.GetAt()) + " " + e.GetWhat()
		if e.GetBy() != "" {
			text += " by " + e.GetBy()
		}
		if e.GetReason() != "" {
			text += ": " + e.GetReason()
		}
		field("history", text)
	}
	for _, one := range j.GetRefusals() {
		field("refusal", one.GetTaskId()+": "+one.GetReason())
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
