package server

import (
	"cmp"
	"context"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// ChangedByJobs returns a function that takes note of tasks that bulk jobs have changed, as the API does of those that it has changed
// itself: for [jobs.Config]. ended is called with each attempt that has ended by that.
func ChangedByJobs(m *Metrics, ended func(id task.ID, attempt uint32)) func(*task.Task) {
	return func(t *task.Task) {
		m.changed(t)
		if a, ok := endedNow(t); ok {
			ended(t.ID, a.Number)
		}
	}
}

// orderOf returns the job of an order, prepared, if the caller may order it.
func (a *API) orderOf(ctx context.Context, o *taskenginev1.BulkOrder, name string, rate float64, by string) (bulk.Job, error) {
	now := a.engine.Now()
	j := bulk.Job{
		Name: cmp.Or(name, jobs.NewName(now)), Verb: bulk.Verb(o.GetVerb()), Where: o.GetWhere(), Types: o.GetTypes(), Reason: errorOf(ctx, o.GetReason()), Rate: rate, By: byOf(ctx, by),
	}
	if j.Verb == bulk.Undo {
		if j.Where != "" || len(j.Types) > 0 {
			return j, a.answer(invalid("a job that is undone has a filter and types of its own: where and types are not for undo"))
		}
		if err := a.jobs.Undo(ctx, o.GetJob(), &j); err != nil {
			return j, a.answer(err)
		}
	} else {
		j.Of = o.GetJob() // no other verb has one
	}
	if _, err := filterOf(nil, j.Types); err != nil {
		return j, a.answer(err)
	}
	if err := a.permitFilter(ctx, j.Types); err != nil {
		return j, err
	}
	if doing := map[bulk.Verb]string{bulk.Delete: "deleting tasks", bulk.Erase: "erasing tasks"}[j.Verb]; doing != "" {
		if err := a.permitRole(ctx, access.Admin, doing); err != nil {
			return j, err
		}
	}
	var err error
	if j.At, err = moment(o.GetAt(), o.GetIn(), now); err != nil {
		return j, a.answer(err)
	}
	v, err := valuesOf(o.GetValues())
	if err != nil {
		return j, a.answer(err)
	}
	j.Priority, j.Payload, j.Headers = v.Priority, v.Payload, v.Headers
	if err := j.Prepare(now); err != nil {
		return j, a.answer(err)
	}
	if _, err := jobs.ActionOf(&j); err != nil {
		return j, a.answer(err)
	}
	where, err := filter.Parse(j.Where, now)
	if err != nil {
		return j, a.answer(invalid("where: %w", err))
	}
	return j, a.permitWhere(ctx, where.And(filter.Of(nil, j.Types, "")))
}

// valuesOf converts the values of a request.
func valuesOf(m *taskenginev1.TaskValues) (v engine.Values, err error) {
	if m == nil {
		return v, nil
	}
	if m.Priority != nil {
		if *m.Priority > uint32(task.LowestPriority) {
			return v, invalid("the priority is %d, of %d allowed", *m.Priority, task.LowestPriority)
		}
		v.Priority = new(uint8(*m.Priority))
	}
	switch {
	case m.Payload != nil && m.Text != nil:
		return v, invalid("payload and text are both given")
	case m.Payload != nil:
		v.Payload = &m.Payload
	case m.Text != nil:
		v.Payload = new([]byte(*m.Text))
	}
	for _, name := range m.GetRemoveHeaders() {
		if v.Headers == nil {
			v.Headers = make(map[string]*string)
		}
		v.Headers[name] = nil
	}
	for name, value := range m.GetHeaders() {
		if v.Headers == nil {
			v.Headers = make(map[string]*string)
		}
		if _, removed := v.Headers[name]; removed {
			return v, invalid("the header %.80q is set and removed", name)
		}
		v.Headers[name] = &value
	}
	return v, nil
}

// SetTask changes values of a task.
func (a *API) SetTask(ctx context.Context, req *taskenginev1.SetTaskRequest) (*taskenginev1.SetTaskResponse, error) {
	v, err := valuesOf(req.GetValues())
	if err != nil {
		return nil, a.answer(err)
	}
	at, err := moment(req.GetAt(), req.GetIn(), a.engine.Now())
	if err != nil {
		return nil, a.answer(err)
	}
	if !at.IsZero() {
		v.At = &at
	}
	if v.By = byOf(ctx, req.GetBy()); len(v.By) > maxBy {
		return nil, a.answer(invalid("by has %d bytes, of %d allowed", len(v.By), maxBy))
	}
	action, err := engine.Setting(v)
	if err != nil {
		return nil, a.answer(err)
	}
	t, err := a.act(ctx, req, action)
	if err != nil {
		return nil, err
	}
	return &taskenginev1.SetTaskResponse{Task: t}, nil
}

// DeleteTask removes a task.
func (a *API) DeleteTask(ctx context.Context, req *taskenginev1.DeleteTaskRequest) (*taskenginev1.DeleteTaskResponse, error) {
	t, err := a.act(ctx, req, engine.Deleting())
	if err != nil {
		return nil, err
	}
	return &taskenginev1.DeleteTaskResponse{Task: t}, nil
}

// act makes a change that ends neither a task nor an attempt.
func (a *API) act(ctx context.Context, req named, action engine.Action) (*taskenginev1.Task, error) {
	id, err := parseID(req.GetId())
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitTasks(ctx, id); err != nil {
		return nil, a.answer(err)
	}
	t, err := a.engine.Do(ctx, task.Ref{ID: id, Version: req.GetVersion()}, action)
	if err != nil {
		return nil, a.answer(err)
	}
	return summaryOf(t), nil
}

// PreviewBulkJob says which tasks a job would change.
func (a *API) PreviewBulkJob(ctx context.Context, req *taskenginev1.PreviewBulkJobRequest) (*taskenginev1.PreviewBulkJobResponse, error) {
	j, err := a.orderOf(ctx, req.GetOrder(), "", 0, "")
	if err != nil {
		return nil, err
	}
	p, err := a.jobs.Preview(ctx, &j)
	if err != nil {
		return nil, a.answer(err)
	}
	res := &taskenginev1.PreviewBulkJobResponse{
		Where: text(j.Where), Tasks: p.Tasks, Complete: p.Complete, Read: p.Read, Total: p.Total, Index: p.Index,
		States: make(map[string]int64, len(p.States)), Samples: summariesOf(p.Samples),
	}
	left := p.Left
	if j.Verb == bulk.Set {
		left = p.Lost()
	}
	for reason, n := range left {
		if res.Left == nil {
			res.Left = make(map[string]int64, len(left))
		}
		res.Left[text(reason)] = n
	}
	for s, n := range p.States {
		res.States[s.String()] = n
	}
	for _, k := range p.Kinds {
		res.Kinds = append(res.Kinds, &taskenginev1.BulkKind{Kind: k.Kind.String(), Pattern: text(k.Pattern), Tasks: k.Tasks, Sample: k.Sample.String(), Error: text(k.Error)})
	}
	return res, nil
}

// StartBulkJob adds a job.
func (a *API) StartBulkJob(ctx context.Context, req *taskenginev1.StartBulkJobRequest) (*taskenginev1.StartBulkJobResponse, error) {
	j, err := a.orderOf(ctx, req.GetOrder(), req.GetName(), req.GetRate(), req.GetBy())
	if err != nil {
		return nil, err
	}
	p, err := a.jobs.Preview(ctx, &j)
	if err != nil {
		return nil, a.answer(err)
	}
	j.Total, j.Complete = p.Selected(), p.Complete
	s, err := a.jobs.Start(ctx, j)
	if err != nil {
		return nil, a.answer(err)
	}
	a.log.Info("a bulk job was ordered", "job", j.Name, "verb", string(j.Verb), "where", j.Logged(), "tasks", j.Total, "by", j.By, "reason", j.Reason)
	return &taskenginev1.StartBulkJobResponse{Job: bulkJobOf(s)}, nil
}

// ListBulkJobs returns a page of jobs. Jobs with types for which the caller has no token are left out.
func (a *API) ListBulkJobs(ctx context.Context, req *taskenginev1.ListBulkJobsRequest) (*taskenginev1.ListBulkJobsResponse, error) {
	if req.GetLimit() > MaxList {
		return nil, a.answer(invalid("limit is %d, of %d allowed", req.GetLimit(), MaxList))
	}
	if token := req.GetPageToken(); token != "" && bulk.CheckName(token) != nil {
		return nil, a.answer(invalid("page_token is not one of an earlier response"))
	}
	limit := cmp.Or(int(req.GetLimit()), defaultList)
	all, err := a.jobs.List(ctx, req.GetPageToken(), limit)
	if err != nil {
		return nil, a.answer(err)
	}
	res := new(taskenginev1.ListBulkJobsResponse)
	for _, s := range all {
		if a.permitFilter(ctx, s.Job.Types) != nil {
			continue
		}
		m := bulkJobOf(s)
		m.Refusals, m.History = nil, nil
		res.Jobs = append(res.Jobs, m)
	}
	if len(all) == limit {
		res.NextPageToken = all[limit-1].Job.Name
	}
	return res, nil
}

// GetBulkJob returns one job.
func (a *API) GetBulkJob(ctx context.Context, req *taskenginev1.GetBulkJobRequest) (*taskenginev1.GetBulkJobResponse, error) {
	m, err := a.bulkJob(ctx, req.GetName(), nil)
	if err != nil {
		return nil, err
	}
	return &taskenginev1.GetBulkJobResponse{Job: m}, nil
}

// bulkJob returns the message of a job after do, which may be nil, if the caller may deal with its tasks.
func (a *API) bulkJob(ctx context.Context, name string, do func() (*jobs.Status, error)) (*taskenginev1.BulkJob, error) {
	s, err := a.jobs.Get(ctx, name)
	if err != nil {
		return nil, a.answer(err)
	}
	if err := a.permitFilter(ctx, s.Job.Types); err != nil {
		return nil, err
	}
	if do != nil {
		if s, err = do(); err != nil {
			return nil, a.answer(err)
		}
	}
	return bulkJobOf(s), nil
}

// bulkOrder is the part that the requests have in common that order something of a job.
type bulkOrder interface {
	GetName() string
	GetBy() string
	GetReason() string
}

// orderJob passes an order to a job.
func (a *API) orderJob(ctx context.Context, verb string, req bulkOrder, do func(ctx context.Context, name, by, reason string) (*jobs.Status, error)) (*taskenginev1.BulkJob, error) {
	by := byOf(ctx, req.GetBy())
	switch {
	case len(by) > maxBy:
		return nil, a.answer(invalid("by has %d bytes, of %d allowed", len(by), maxBy))
	case len(req.GetReason()) > maxReason:
		return nil, a.answer(invalid("reason has %d bytes, of %d allowed", len(req.GetReason()), maxReason))
	}
	m, err := a.bulkJob(ctx, req.GetName(), func() (*jobs.Status, error) { return do(ctx, req.GetName(), by, req.GetReason()) })
	if err == nil {
		a.log.Info("a bulk job has an order", "job", req.GetName(), "verb", verb, "by", by, "reason", req.GetReason())
	}
	return m, err
}

// PauseBulkJob has a job change no more tasks.
func (a *API) PauseBulkJob(ctx context.Context, req *taskenginev1.PauseBulkJobRequest) (*taskenginev1.PauseBulkJobResponse, error) {
	m, err := a.orderJob(ctx, "pause", req, a.jobs.Pause)
	if err != nil {
		return nil, err
	}
	return &taskenginev1.PauseBulkJobResponse{Job: m}, nil
}

// ContinueBulkJob ends a pause.
func (a *API) ContinueBulkJob(ctx context.Context, req *taskenginev1.ContinueBulkJobRequest) (*taskenginev1.ContinueBulkJobResponse, error) {
	m, err := a.orderJob(ctx, "continue", req, a.jobs.Continue)
	if err != nil {
		return nil, err
	}
	return &taskenginev1.ContinueBulkJobResponse{Job: m}, nil
}

// StopBulkJob ends a job.
func (a *API) StopBulkJob(ctx context.Context, req *taskenginev1.StopBulkJobRequest) (*taskenginev1.StopBulkJobResponse, error) {
	m, err := a.orderJob(ctx, "stop", req, a.jobs.Stop)
	if err != nil {
		return nil, err
	}
	return &taskenginev1.StopBulkJobResponse{Job: m}, nil
}

// withoutReason is a request to change the rate of a job, which has no reason.
type withoutReason struct {
	*taskenginev1.SetBulkJobRateRequest
}

// GetReason implements bulkOrder.
func (withoutReason) GetReason() string { return "" }

// SetBulkJobRate changes how fast a job is.
func (a *API) SetBulkJobRate(ctx context.Context, req *taskenginev1.SetBulkJobRateRequest) (*taskenginev1.SetBulkJobRateResponse, error) {
	m, err := a.orderJob(ctx, "rate", withoutReason{req}, func(ctx context.Context, name, by, _ string) (*jobs.Status, error) {
		return a.jobs.SetRate(ctx, name, req.GetRate(), by)
	})
	if err != nil {
		return nil, err
	}
	return &taskenginev1.SetBulkJobRateResponse{Job: m}, nil
}

func bulkJobOf(s *jobs.Status) *taskenginev1.BulkJob {
	m := &taskenginev1.BulkJob{
		Name: s.Job.Name, Phase: string(s.Phase), Verb: string(s.Job.Verb), Where: text(s.Job.Where), Types: texts(s.Job.Types), Reason: text(s.Job.Reason), At: stamp(s.Job.At),
		Rate: s.Job.Rate, By: text(s.Job.By), OrderedAt: stamp(s.Job.Ordered), BegunAt: stamp(s.State.Begun), EndedAt: stamp(s.State.Ended),
		Total: s.Job.Total, TotalComplete: s.Job.Complete, Changed: s.State.Changed, Skipped: s.State.Skipped, Refused: s.State.Refused, Unclear: s.State.Unclear, Read: s.State.Read,
		TaskId: s.Task.String(), Problem: text(s.Problem), Undoes: s.Job.Of,
	}
	for _, one := range s.State.Reasons {
		m.Refusals = append(m.Refusals, &taskenginev1.BulkRefusal{TaskId: one.Task.String(), Reason: text(one.Reason)})
	}
	for _, e := range s.Job.History {
		m.History = append(m.History, &taskenginev1.BulkEvent{At: stamp(e.At), By: text(e.By), What: e.What, Reason: text(e.Reason)})
	}
	return m
}
