package dashboard

import (
	"context"
	"net/url"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func limitsPage() page {
	return page{path: "limits", name: "Limits", key: "l", whole: true, template: "limits", every: 2 * time.Second, load: loadLimits}
}

// limitRow is a limit, or one of its values for which something is set.
type limitRow struct {
	*taskenginev1.Limit
	To   string // the link to its page
	Used int64  // by all nodes
}

func loadLimits(v *view) (any, error) {
	v.command = commandLine("limit", "list")
	got, err := shared(v, "limits", queryPatience, func(ctx context.Context) (*taskenginev1.ListLimitsResponse, error) {
		return v.api().ListLimits(ctx, &taskenginev1.ListLimitsRequest{})
	})
	if err != nil {
		return nil, err
	}
	v.silent = got.Value.GetSilent()
	var rows []limitRow
	for _, l := range got.Value.GetLimits() {
		rows = append(rows, v.limitRow(l))
	}
	return rows, nil
}

func (v *view) limitRow(l *taskenginev1.Limit) limitRow {
	row := limitRow{Limit: l, To: v.d.Base + "limit/" + url.PathEscape(l.GetName()), Used: l.GetUsed()}
	if value := l.GetValue(); value != "" {
		row.To += "?value=" + url.QueryEscape(value)
	}
	if len(l.GetUses()) > 0 {
		row.Used = 0
		for _, u := range l.GetUses() {
			row.Used += u.GetUsed()
		}
	}
	return row
}

func limitPage() page {
	return page{path: "limit/{name}", under: "Limits", whole: true, template: "limit", every: 2 * time.Second, load: loadLimit}
}

// limitShown has the values of the page of one limit.
type limitShown struct {
	Row   limitRow
	Value string
	Why   *taskenginev1.WhyLimitResponse
	Slots int64 // that the listed tasks take
}

func loadLimit(v *view) (any, error) {
	name, value := v.PathValue("name"), v.URL.Query().Get("value")
	v.title, v.command = "Limit "+name, commandLine("limit", "why", name)
	if value != "" {
		v.title, v.command = "Limit "+name+" of "+value, commandLine("limit", "why", name, "--value", value)
	}
	got, err := shared(v, "limit\x00"+name+"\x00"+value, pagePatience, func(ctx context.Context) (*taskenginev1.WhyLimitResponse, error) {
		return v.api().WhyLimit(ctx, &taskenginev1.WhyLimitRequest{Name: name, Value: value})
	})
	if err != nil {
		return nil, err
	}
	v.silent = got.Value.GetSilent()
	s := &limitShown{Row: v.limitRow(got.Value.GetLimit()), Value: value, Why: got.Value}
	for _, t := range got.Value.GetTasks() {
		s.Slots += int64(t.GetSlots())
	}
	return s, nil
}
