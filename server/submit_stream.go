package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/engine"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// SubmitStream adds the tasks of a stream.
func (a *API) SubmitStream(ctx context.Context, stream *connect.BidiStream[taskenginev1.SubmitStreamRequest, taskenginev1.SubmitStreamResponse]) error {
	return a.submitStream(ctx, stream.Receive, stream.Send)
}

func (a *API) submitStream(ctx context.Context, receive func() (*taskenginev1.SubmitStreamRequest, error), send func(*taskenginev1.SubmitStreamResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &submitStream{api: a, ctx: ctx, send: send, lanes: make(map[string]*submitLane)}
	s.room.L = &s.mu
	for _, b := range a.engine.Backlogs() {
		s.lanes[b.Type] = &submitLane{stream: s}
	}
	s.work.Go(s.notifyStop)
	err := s.receive(receive)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the client has gone
	} else {
		s.awaitAnswered()
	}
	cancel()
	s.work.Wait()
	if err != nil {
		return a.answer(err)
	}
	return nil
}

// errStopping is the error of requests that come when the node stops. It has not passed them to the engine.
var errStopping = connect.NewError(connect.CodeUnavailable, errors.New("the node is stopping; send the task to another node"))

// submitStream adds the tasks of one stream. The goroutine of the request receives, and each lane has a goroutine while it
// has tasks.
type submitStream struct {
	api  *API
	ctx  context.Context // of the stream; its methods are called by the request alone
	work sync.WaitGroup  // of lanes, and of notifyStop

	lanes map[string]*submitLane // one for each type with a maximum, since its requests may wait, and "" for all others; only receive writes it

	sending sync.Mutex                                     // held while send is called
	send    func(*taskenginev1.SubmitStreamResponse) error // guarded by sending

	mu    sync.Mutex
	room  sync.Cond // of mu: requests were answered
	tasks int       // guarded by mu: requests that are not answered
	bytes int       // guarded by mu: their size
}

// submitLane has the requests of a stream that are added one batch after the other.
type submitLane struct {
	stream *submitStream

	queue   []*taskenginev1.StreamedTask // guarded by stream.mu
	running bool                         // guarded by stream.mu: a goroutine empties queue
}

// receive passes requests to the lanes until the client has sent all.
func (s *submitStream) receive(next func() (*taskenginev1.SubmitStreamRequest, error)) error {
	for {
		s.awaitRoom()
		req, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(req.GetTasks()) > MaxSubmit:
			return invalid("%d tasks, of %d allowed in one message", len(req.GetTasks()), MaxSubmit)
		}
		if err := s.api.recheck(s.ctx); err != nil {
			return err
		}
		select {
		case <-s.api.stopping:
			err = s.refuse(req.GetTasks())
		default:
			s.add(req.GetTasks())
		}
		if err != nil {
			return err
		}
	}
}

// add passes requests to their lanes.
func (s *submitStream) add(tasks []*taskenginev1.StreamedTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		lane := s.lanes[t.GetTask().GetType()]
		if lane == nil {
			if lane = s.lanes[""]; lane == nil {
				lane = &submitLane{stream: s}
				s.lanes[""] = lane
			}
		}
		s.tasks, s.bytes = s.tasks+1, s.bytes+proto.Size(t)
		lane.queue = append(lane.queue, t)
		if !lane.running {
			lane.running = true
			s.work.Go(lane.run)
		}
	}
}

// awaitRoom waits until the next message may be read.
func (s *submitStream) awaitRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tasks >= maxStreamed || s.bytes >= s.api.maxRequest {
		s.room.Wait()
	}
}

// awaitAnswered waits until all requests that were received are answered.
func (s *submitStream) awaitAnswered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tasks > 0 {
		s.room.Wait()
	}
}

// refuse answers requests that come when the node stops.
func (s *submitStream) refuse(tasks []*taskenginev1.StreamedTask) error {
	res := &taskenginev1.SubmitStreamResponse{Stopping: true}
	for _, t := range tasks {
		res.Outcomes = append(res.Outcomes, outcomeOf(t, nil, errStopping))
	}
	return s.sendOne(res)
}

// notifyStop notifies the client when the node stops.
func (s *submitStream) notifyStop() {
	select {
	case <-s.api.stopping:
		_ = s.sendOne(&taskenginev1.SubmitStreamResponse{Stopping: true}) // if it fails, the stream has ended
	case <-s.ctx.Done():
	}
}

func (s *submitStream) sendOne(res *taskenginev1.SubmitStreamResponse) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.send(res)
}

// run adds the requests of a lane until there are no more.
func (l *submitLane) run() {
	s := l.stream
	for batch, size := l.take(0, 0); len(batch) > 0; batch, size = l.take(len(batch), size) {
		res := &taskenginev1.SubmitStreamResponse{Outcomes: s.submit(batch)}
		_ = s.sendOne(res) // if it fails, the stream has ended, and receive learns of it
	}
}

// take returns the next requests and their size, after so many were answered. If there are none, the lane stops.
func (l *submitLane) take(answered, size int) (batch []*taskenginev1.StreamedTask, bytes int) {
	s := l.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks, s.bytes = s.tasks-answered, s.bytes-size
	s.room.Signal()
	n := min(len(l.queue), MaxSubmit)
	batch, l.queue = l.queue[:n:n], l.queue[n:]
	if n == 0 {
		l.queue, l.running = nil, false
	}
	for _, t := range batch {
		bytes += proto.Size(t)
	}
	return batch, bytes
}

// submit adds tasks, and returns the outcome of each.
func (s *submitStream) submit(batch []*taskenginev1.StreamedTask) (outcomes []*taskenginev1.SubmitOutcome) {
	outcomes = make([]*taskenginev1.SubmitOutcome, len(batch))
	defer func() {
		if cause := recover(); cause != nil {
			err := s.api.panicked(taskenginev1connect.TaskServiceSubmitStreamProcedure, cause)
			for i, t := range batch {
				outcomes[i] = outcomeOf(t, nil, err)
			}
		}
	}()
	reqs, places := make([]engine.Request, 0, len(batch)), make([]int, 0, len(batch))
	now := s.api.engine.Now()
	for i, t := range batch {
		req, err := s.request(t, now)
		if err != nil {
			outcomes[i] = outcomeOf(t, nil, s.api.answer(err))
			continue
		}
		reqs, places = append(reqs, req), append(places, i)
	}
	ctx, cancel := patient(s.ctx)
	defer cancel()
	s.submitEach(ctx, reqs, func(i int, receipt *taskenginev1.Receipt, err error) {
		outcomes[places[i]] = outcomeOf(batch[places[i]], receipt, err)
	})
	return outcomes
}

// request returns the request for a task, if the client may make it.
func (s *submitStream) request(t *taskenginev1.StreamedTask, now time.Time) (r engine.Request, err error) {
	if t.GetTask() == nil {
		return r, invalid("task is missing")
	}
	if r, err = requestOf(t.GetTask(), now); err != nil {
		return r, err
	}
	return r, s.api.permitRequest(s.ctx, &r)
}

// submitEach adds tasks together, and halves them while one is refused, so that it is refused alone.
func (s *submitStream) submitEach(ctx context.Context, reqs []engine.Request, tell func(int, *taskenginev1.Receipt, error)) {
	if len(reqs) == 0 {
		return
	}
	receipts, err := s.api.engine.Submit(ctx, reqs...)
	isOfOne := errors.Is(err, engine.ErrInvalid) || errors.Is(err, engine.ErrBacklog) && ctx.Err() == nil
	if half := len(reqs) / 2; isOfOne && half > 0 {
		s.submitEach(ctx, reqs[:half], tell)
		s.submitEach(ctx, reqs[half:], func(i int, receipt *taskenginev1.Receipt, err error) { tell(half+i, receipt, err) })
		return
	}
	if err != nil && (len(receipts) < len(reqs) || !isPartial(err)) {
		err = s.api.answer(err)
		for i := range reqs {
			tell(i, nil, err)
		}
		return
	}
	var warnings typeWarnings
	for i, r := range receipts {
		if r.Err != nil { // the others are done
			tell(i, nil, s.api.answer(r.Err))
			continue
		}
		tell(i, receiptOf(r, warnings.of(ctx, s.api, reqs[i].Type)), nil)
	}
}

// outcomeOf returns the message of an outcome; err is one of [API.answer].
func outcomeOf(t *taskenginev1.StreamedTask, receipt *taskenginev1.Receipt, err error) *taskenginev1.SubmitOutcome {
	m := &taskenginev1.SubmitOutcome{Sequence: t.GetSequence()}
	if err == nil {
		m.Outcome = &taskenginev1.SubmitOutcome_Receipt{Receipt: receipt}
		return m
	}
	e := &taskenginev1.SubmitError{Code: connect.CodeOf(err).String(), Message: text(err.Error())}
	var answer *connect.Error
	if errors.As(err, &answer) {
		e.Message, e.Full = text(answer.Message()), answer.Meta().Get(FullHeader)
	}
	m.Outcome = &taskenginev1.SubmitOutcome_Error{Error: e}
	return m
}
