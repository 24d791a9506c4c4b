package dashboard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// jobsOnPage is how many bulk jobs are shown.
const jobsOnPage = 50

func bulkPage() page {
	return page{path: "bulk", name: "Bulk jobs", key: "b", template: "bulk", every: 2 * time.Second, load: loadJobs}
}

// jobList has the values of the list of bulk jobs.
type jobList struct {
	Jobs []jobShown
	Next string // the link to the next page; "" at the end
}

// jobShown is a bulk job.
type jobShown struct {
	*taskenginev1.BulkJob
	Left int64 // tasks to come, if that is known
	Ends bool  // it has ended
	May  bool  // the person may give it orders
}

func (v *view) shownJob(j *taskenginev1.BulkJob) jobShown {
	seen := j.GetChanged() + j.GetSkipped() + j.GetRefused() + j.GetUnclear()
	return jobShown{BulkJob: j, Left: max(0, j.GetTotal()-seen), Ends: j.GetEndedAt() != nil, May: v.may(access.Manage)}
}

// Seen returns how many tasks the job has come to.
func (j jobShown) Seen() int64 { return j.GetTotal() - j.Left }

func loadJobs(v *view) (any, error) {
	v.command = commandLine("bulk", "list")
	after := v.URL.Query().Get("after")
	got, err := shared(v, "jobs\x00"+after, queryPatience, func(ctx context.Context) (*taskenginev1.ListBulkJobsResponse, error) {
		return v.api().ListBulkJobs(ctx, &taskenginev1.ListBulkJobsRequest{Limit: jobsOnPage, PageToken: after})
	})
	if err != nil {
		return nil, err
	}
	l := new(jobList)
	for _, j := range got.Value.GetJobs() {
		l.Jobs = append(l.Jobs, v.shownJob(j))
	}
	if next := got.Value.GetNextPageToken(); next != "" {
		l.Next = v.d.Base + "bulk?after=" + url.QueryEscape(next)
	}
	return l, nil
}

func jobPage() page {
	return page{path: "bulk/{name}", under: "Bulk jobs", template: "job", every: time.Second, load: loadJob}
}

func loadJob(v *view) (any, error) {
	name := v.PathValue("name")
	v.title, v.command = "Bulk job "+name, commandLine("bulk", "show", name)
	got, err := shared(v, "job\x00"+name, pagePatience, func(ctx context.Context) (*taskenginev1.GetBulkJobResponse, error) {
		return v.api().GetBulkJob(ctx, &taskenginev1.GetBulkJobRequest{Name: name})
	})
	if err != nil {
		return nil, err
	}
	return v.shownJob(got.Value.GetJob()), nil
}

func bulkActions() []action {
	to := func(v *view) string { return "bulk/" + url.PathEscape(v.PathValue("name")) }
	return []action{
		{"bulk/new", startJob},
		{"bulk/{name}/pause", func(v *view) (string, error) {
			_, err := v.api().PauseBulkJob(v.ctx, &taskenginev1.PauseBulkJobRequest{Name: v.PathValue("name"), Reason: v.PostFormValue("reason")})
			return to(v), err
		}},
		{"bulk/{name}/continue", func(v *view) (string, error) {
			_, err := v.api().ContinueBulkJob(v.ctx, &taskenginev1.ContinueBulkJobRequest{Name: v.PathValue("name"), Reason: v.PostFormValue("reason")})
			return to(v), err
		}},
		{"bulk/{name}/stop", func(v *view) (string, error) {
			_, err := v.api().StopBulkJob(v.ctx, &taskenginev1.StopBulkJobRequest{Name: v.PathValue("name"), Reason: v.PostFormValue("reason")})
			return to(v), err
		}},
		{"bulk/{name}/rate", func(v *view) (string, error) {
			rate, err := rateOf(v.PostFormValue("rate"))
			if err != nil {
				return "", err
			}
			_, err = v.api().SetBulkJobRate(v.ctx, &taskenginev1.SetBulkJobRateRequest{Name: v.PathValue("name"), Rate: rate})
			return to(v), err
		}},
	}
}

func newJobPage() page {
	return page{path: "bulk/new", under: "Bulk jobs", template: "bulk_new", every: 3 * time.Second, load: loadNewJob}
}

// newJob has the values of the form for a bulk job.
type newJob struct {
	Verbs    []string
	Verb     string
	Query    string
	Rate     string
	Reason   string
	Name     string                               // so that the form starts one job, however often it is sent
	Problem  string                               // why the order was refused
	Preview  *taskenginev1.PreviewBulkJobResponse // nil: not known yet
	Found    string                               // how the tasks of the preview were found
	MayStart bool
}

// bulkVerbs are the verbs that a form offers.
func (v *view) bulkVerbs() []string {
	verbs := []string{"resume", "cancel", "fail"}
	if v.may(access.Admin) {
		verbs = append(verbs, "delete")
	}
	return verbs
}

func loadNewJob(v *view) (any, error) {
	form := v.URL.Query()
	n := &newJob{
		Verbs: v.bulkVerbs(), Verb: form.Get("verb"), Query: strings.TrimSpace(form.Get("q")), Rate: form.Get("rate"), Reason: form.Get("reason"),
		Name: newJobName(v.now), MayStart: v.may(access.Manage),
	}
	if n.Verb == "" {
		n.Verb = "resume"
	}
	v.title = "Change many tasks"
	v.command = commandLine("task", n.Verb, "--where", n.Query, "--dry-run")
	order, err := v.orderOf(n.Verb, n.Query, n.Reason)
	if err != nil {
		return nil, err
	}
	got, err := shared(v, "preview\x00"+n.Verb+"\x00"+n.Query, queryPatience, func(ctx context.Context) (*taskenginev1.PreviewBulkJobResponse, error) {
		return v.api().PreviewBulkJob(ctx, &taskenginev1.PreviewBulkJobRequest{Order: order})
	})
	switch code := connect.CodeOf(err); {
	case err != nil && (code == connect.CodeInvalidArgument || code == connect.CodePermissionDenied):
		n.Problem = errorText(err)
		return n, nil
	case err != nil:
		return nil, err
	}
	if n.Preview = got.Value; n.Preview != nil {
		n.Found = howFound(n.Preview.GetRead(), n.Preview.GetTotal(), n.Preview.GetIndex())
	}
	return n, nil
}

// orderOf returns the order of a form. A token for some types orders for these.
func (v *view) orderOf(verb, where, reason string) (*taskenginev1.BulkOrder, error) {
	types, err := v.types()
	o := &taskenginev1.BulkOrder{Verb: verb, Where: where, Types: types}
	if verb == "cancel" || verb == "fail" {
		o.Reason = reason
	}
	return o, err
}

// newJobName returns a name as the API makes it.
func newJobName(now time.Time) string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // it never fails
	return now.UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
}

func startJob(v *view) (string, error) {
	rate, err := rateOf(v.PostFormValue("rate"))
	if err != nil {
		return "", err
	}
	order, err := v.orderOf(v.PostFormValue("verb"), strings.TrimSpace(v.PostFormValue("q")), v.PostFormValue("reason"))
	if err != nil {
		return "", err
	}
	if order.GetWhere() == "" {
		return "", invalid("give a filter: a job for all tasks of the store is ordered on the command line only")
	}
	got, err := v.api().StartBulkJob(v.ctx, &taskenginev1.StartBulkJobRequest{Order: order, Name: v.PostFormValue("name"), Rate: rate})
	return "bulk/" + url.PathEscape(got.GetJob().GetName()), err
}

// rateOf reads tasks in a second, such as 50 or 50/s.
func rateOf(text string) (float64, error) {
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "/s"))
	if text == "" {
		return 0, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0) {
		return 0, invalid("the rate %.40q is not a number of tasks in a second, such as 50", text)
	}
	return rate, nil
}

// pace writes a rate of a job.
func pace(rate float64) string {
	if rate == 0 {
		return "as fast as possible"
	}
	return fmt.Sprintf("%g a second", rate)
}
