package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// platformFlags say which platforms of a source are shown.
type platformFlags struct {
	prefix string
	limit  int
	all    bool
}

func (f *platformFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "of a source of time slices, only platforms with names that begin so")
	cmd.Flags().IntVar(&f.limit, "limit", 100, "at most so many platforms")
	cmd.Flags().BoolVar(&f.all, "all", false, "all platforms")
}

func (f *platformFlags) check() error {
	if f.limit < 1 {
		return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 or more", f.limit)
	}
	return nil
}

// platforms returns the platforms of a source that the flags select, and whether there are more.
func (f *platformFlags) platforms(ctx context.Context, c *client, source string) (all []*taskenginev1.Platform, more bool, err error) {
	for token := ""; ; {
		limit := server.MaxList
		if !f.all {
			limit = min(limit, f.limit-len(all))
		}
		res, err := call(ctx, c, c.ListPlatforms, &taskenginev1.ListPlatformsRequest{Source: source, Prefix: f.prefix, Limit: uint32(limit), PageToken: token})
		if err != nil {
			return nil, false, err
		}
		all = append(all, res.GetPlatforms()...)
		token = res.GetNextPageToken()
		if token == "" || !f.all && len(all) >= f.limit {
			return all, token != "", nil
		}
	}
}

// showSliceSource shows a source of time slices with its platforms.
func (a *app) showSliceSource(ctx context.Context, c *client, name string, f *platformFlags) error {
	res, err := call(ctx, c, c.GetSliceSource, &taskenginev1.GetSliceSourceRequest{Name: name})
	if err != nil {
		return err
	}
	all, more, err := f.platforms(ctx, c, name)
	if err != nil {
		return err
	}
	if more {
		a.note("there are more platforms; --prefix, --limit or --all show them")
	}
	s := res.GetSource()
	if a.json() {
		o := messageJSON(s)
		list := make([]any, len(all))
		for i, p := range all {
			list[i] = messageJSON(p).without("settings", "slices", "history")
		}
		o.set("platforms", list)
		return a.printJSON(o)
	}
	if _, err := fmt.Fprint(a.stdout, sliceSourceText(s)); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(a.stdout); err != nil {
		return err
	}
	return a.showPlatformRows(all)
}

// sliceSourceText describes a source of time slices as lines of text.
func sliceSourceText(s *taskenginev1.SliceSource) string {
	f := new(facts)
	f.add("source", s.GetName())
	f.add("type", s.GetType())
	f.add("version", fmt.Sprint(s.GetVersion()))
	f.add("only on", s.GetOnlyOn())
	f.add("platforms", fmt.Sprintf("%d; stopped %d, paused %d, with a problem %d", s.GetPlatformCount(), s.GetStopped(), s.GetPaused(), s.GetProblems()))
	f.add("low-water", when(s.GetLowWater()))
	f.add("lag", lagWords(s.GetCursorLag()))
	f.add("slices", fmt.Sprintf("running %d, failed %d", s.GetRunning(), s.GetFailed()))
	f.settings(s.GetValues())
	f.changes(s.GetHistory())
	if n := s.GetOrders(); n > 0 {
		f.add("orders", fmt.Sprintf("%d requests are not carried out yet, or not passed to all platforms", n))
	}
	f.add("task", s.GetTaskId())
	f.add("problem", s.GetProblem())
	return f.String()
}

// settings adds a line for each setting.
func (f *facts) settings(all []*taskenginev1.SliceSetting) {
	for _, v := range all {
		f.add("setting", fmt.Sprintf("%s=%s (%s)", v.GetName(), v.GetValue(), v.GetFrom()))
	}
}

// changes adds a line for each change.
func (f *facts) changes(all []*taskenginev1.SliceChange) {
	for _, v := range all {
		by := ""
		if v.GetBy() != "" {
			by = " by " + v.GetBy()
		}
		f.add("changed", when(v.GetAt())+by+": "+v.GetWhat())
	}
}

// showPlatform shows one platform.
func (a *app) showPlatform(ctx context.Context, c *client, n sliceName) error {
	res, err := call(ctx, c, c.GetPlatform, &taskenginev1.GetPlatformRequest{Source: n.source, Platform: n.platform})
	if err != nil {
		return err
	}
	p := res.GetPlatform()
	if a.json() {
		return a.printMessage(p)
	}
	if _, err := fmt.Fprint(a.stdout, platformText(p)); err != nil || len(p.GetSlices()) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(a.stdout); err != nil {
		return err
	}
	return a.showSliceRows(p.GetSlices())
}

// showSliceRows writes slices of a platform as rows.
func (a *app) showSliceRows(all []*taskenginev1.OpenSlice) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		state := "open"
		if s.GetFailedAt() != nil {
			state = "failed"
		}
		rows[i] = []string{when(s.GetStart()), when(s.GetEnd()), state, when(s.GetFailedAt()), s.GetTaskId()}
	}
	return a.printTable([]string{"START", "END", "STATE", "FAILED", "ID"}, rows, "FAILED")
}

// platformText describes a platform as lines of text, without its slices.
func platformText(p *taskenginev1.Platform) string {
	f := new(facts)
	f.add("source", p.GetSource())
	f.add("platform", p.GetName())
	f.add("state", platformState(p))
	f.add("version", fmt.Sprint(p.GetVersion()))
	if v := p.GetPaused(); v != nil {
		f.add("paused", strings.TrimSuffix("since "+when(v.GetSince())+": "+v.GetReason(), ": "))
	}
	if v := p.GetStopped(); v != nil {
		f.add("stopped", fmt.Sprintf("since %s; a failed slice is tried again %s", when(v.GetSince()), when(v.GetNext())))
	}
	if at := p.GetCursor(); at != nil {
		f.add("cursor", at.AsTime().Format(time.RFC3339Nano)) // for reset --from
	}
	f.add("low-water", when(p.GetLowWater()))
	f.add("lag", lagWords(p.GetCursorLag()))
	f.add("next", when(p.GetNext()))
	f.add("slices", fmt.Sprintf("made %d, done %d, running %d, failed %d, given up %d", p.GetMade(), p.GetDone(), p.GetRunning(), p.GetFailed(), p.GetGivenUp()))
	f.settings(p.GetSettings())
	f.changes(p.GetHistory())
	if n := p.GetOrders(); n > 0 {
		f.add("orders", fmt.Sprintf("%d requests are not carried out yet", n))
	}
	f.add("task", p.GetTaskId())
	f.add("problem", p.GetProblem())
	return f.String()
}
