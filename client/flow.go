package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/internal/workpool"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

const (
	messageTasks = 1000            // in one message
	messageBytes = 1 << 20         // likewise, of a message with several tasks
	mostSent     = 4000            // requests without an outcome, as the node allows
	endTimeout   = 5 * time.Second // for the outcomes of a node that stops
)

// submission is a task that a caller waits for.
type submission struct {
	outgoing
	wait time.Duration // how long its caller waits
	done chan struct{} // closed when outcome is known

	sequence uint64 // guarded by flow.mu: when it was sent last
	isDone   bool   // guarded by flow.mu: done is closed
	outcome  Outcome
}

// flow sends the submissions of a client, over one stream at a time. When a stream ends, submissions without an outcome
// are sent over the next one, under the same ids.
type flow struct {
	client *Client
	wake   wakeup.Signal
	unary  map[*node]bool // owned by the goroutine of run: nodes without SubmitStream

	mu       sync.Mutex
	queue    []*submission          // guarded by mu: to be sent
	sent     map[uint64]*submission // guarded by mu: without an outcome, by sequence
	last     uint64                 // guarded by mu: the last sequence
	answered uint64                 // guarded by mu: how many outcomes there were
	trouble  error                  // guarded by mu: why the last stream has ended; nil after an outcome
	isClosed bool                   // guarded by mu
}

func newFlow(c *Client) *flow {
	return &flow{client: c, wake: wakeup.New(), unary: make(map[*node]bool), sent: make(map[uint64]*submission)}
}

// add queues submissions; nil is skipped.
func (f *flow) add(all []*submission) {
	f.mu.Lock()
	for _, s := range all {
		switch {
		case s == nil:
		case f.isClosed:
			s.finish(Outcome{Err: ErrClosed})
		default:
			f.queue = append(f.queue, s)
		}
	}
	f.mu.Unlock()
	f.wake.Set()
}

// finish sets the outcome, unless there is one. It is called with the mutex of the flow held.
func (s *submission) finish(o Outcome) {
	if s.isDone {
		return
	}
	if o.Err == nil {
		s.claim(&o.Receipt)
	}
	s.isDone, s.outcome = true, o
	close(s.done)
}

// abandon returns the outcome of a submission after its caller has stopped waiting.
func (f *flow) abandon(ctx context.Context, s *submission) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := fmt.Errorf("taskengine: the task may have been added: %w", context.Cause(ctx))
	if f.trouble != nil {
		err = fmt.Errorf("%w: %w", err, f.trouble)
	}
	s.finish(Outcome{Err: err})
	return s.outcome
}

// patience returns the patience with a node that has not answered any of the sent submissions.
func (f *flow) patience() patience {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, size := patience{mostQuiet / 3, mostProbe}, 0
	for _, s := range f.sent {
		if part := s.wait / 4; len(f.client.nodes.all) > 1 {
			p.quiet, p.probe = max(leastQuiet, min(p.quiet, part)), max(leastProbe, min(p.probe, part))
		}
		size += proto.Size(s.message)
	}
	p.probe += arrival(size)
	return p
}

// isAwaiting reports whether something that was sent has no outcome.
func (f *flow) isAwaiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sent) > 0
}

func (f *flow) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// run sends submissions until ctx ends.
func (f *flow) run(ctx context.Context) {
	defer f.close()
	pause := firstPause
	for ctx.Err() == nil {
		if f.waiting() == 0 {
			select {
			case <-f.wake.C():
			case <-ctx.Done():
			}
			continue
		}
		f.mu.Lock()
		before := f.answered
		f.mu.Unlock()
		f.serve(ctx)
		f.mu.Lock()
		if f.answered > before {
			pause = firstPause
		}
		f.mu.Unlock()
		_ = wakeup.Sleep(ctx, jittered(pause)) // the loop sees that ctx has ended
		pause = min(2*pause, mostPause)
	}
}

// close gives all submissions their outcome.
func (f *flow) close() {
	f.requeue()
	f.mu.Lock()
	f.isClosed = true
	f.mu.Unlock()
	f.refuse(fmt.Errorf("%w: the task may have been added", ErrClosed))
}

// refuse gives an error to all that is in the queue.
func (f *flow) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.queue {
		s.finish(Outcome{Err: err})
	}
	f.queue = nil
}

// serve sends submissions to one node until it cannot.
func (f *flow) serve(ctx context.Context) {
	n, err := f.client.nodes.pick(ctx, f.patience(), false)
	if err != nil {
		f.failed(err)
		return
	}
	if f.unary[n] {
		f.sendUnary(ctx)
		return
	}
	err = f.stream(ctx, n)
	f.requeue()
	switch status.Code(err) {
	case codes.Unimplemented:
		f.unary[n] = true
	case codes.InvalidArgument, codes.ResourceExhausted: // one of them is invalid; requests of their own show which
		f.sendUnary(ctx)
	case codes.PermissionDenied, codes.Unauthenticated:
		f.refuse(errorOf(n.address, err, nil))
	default:
		f.client.nodes.leave(n)
		f.failed(errorOf(n.address, err, nil))
	}
}

func (f *flow) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
}

// stream sends submissions over a stream until it ends, and returns why.
func (f *flow) stream(ctx context.Context, n *node) error {
	w := n.watched(ctx, func() (patience, bool) { return f.patience(), f.isAwaiting() })
	err := f.exchange(n, w)
	if w.stop() {
		n.silenced()
		return status.Error(codes.Unavailable, errSilent.Error())
	}
	return err
}

// exchange sends submissions and receives their outcomes over one stream, and returns why it has ended.
func (f *flow) exchange(n *node, w *watch) error {
	s, err := n.conn.NewStream(w.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, taskenginev1connect.TaskServiceSubmitStreamProcedure)
	if err != nil {
		return err
	}
	ended, leave := make(chan error, 1), make(chan struct{})
	go func() { ended <- f.receive(n, s, sync.OnceFunc(func() { close(leave) })) }()
	for {
		workpool.Gather(f.waiting)
		if req := f.take(); len(req.GetTasks()) > 0 {
			if err := s.SendMsg(req); err != nil {
				return <-ended
			}
			w.arm()
		}
		if f.canSend() {
			continue
		}
		select {
		case <-f.wake.C():
		case err := <-ended:
			return err
		case <-leave:
			return f.end(s, ended, func() { w.cancel(nil) })
		}
	}
}

// end ends a stream to a node that stops.
func (f *flow) end(s grpc.ClientStream, ended <-chan error, cancel func()) error {
	_ = s.CloseSend() // if it fails, the stream has ended
	defer time.AfterFunc(endTimeout, cancel).Stop()
	return <-ended
}

// receive takes outcomes until the stream ends, and returns why. It calls leave to switch to another node.
func (f *flow) receive(n *node, s grpc.ClientStream, leave func()) error {
	for {
		res := new(taskenginev1.SubmitStreamResponse)
		if err := s.RecvMsg(res); err != nil {
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "the node is stopping")
			}
			return err
		}
		n.hear()
		if f.resolve(n, res) {
			leave()
		}
		f.wake.Set() // there is room for others
	}
}

// resolve gives submissions their outcomes, and reports whether the node accepts no more.
func (f *flow) resolve(n *node, res *taskenginev1.SubmitStreamResponse) (leave bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	leave = res.GetStopping()
	for _, o := range res.GetOutcomes() {
		s := f.sent[o.GetSequence()]
		if s == nil {
			continue
		}
		delete(f.sent, o.GetSequence())
		outcome := Outcome{}
		if e := o.GetError(); e != nil {
			outcome.Err = outcomeError(n.address, e)
		} else {
			outcome.Receipt, outcome.Err = receiptOf(o.GetReceipt())
		}
		if mayRepeat(outcome.Err) {
			leave = leave || errors.Is(outcome.Err, ErrUnavailable)
			f.trouble = outcome.Err
			f.queue = append(f.queue, s)
			continue
		}
		s.finish(outcome)
		f.answered, f.trouble = f.answered+1, nil
	}
	return leave
}

// canSend reports whether a message can be sent now.
func (f *flow) canSend() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue) > 0 && len(f.sent) < mostSent
}

// take moves the next submissions from the queue to sent, and returns their request.
func (f *flow) take() *taskenginev1.SubmitStreamRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	req, size, n := new(taskenginev1.SubmitStreamRequest), 0, 0
	for _, s := range f.queue {
		bytes := proto.Size(s.message)
		if len(req.GetTasks()) == messageTasks || len(f.sent) >= mostSent || len(req.GetTasks()) > 0 && size+bytes > messageBytes {
			break
		}
		n++
		if s.isDone { // abandoned
			continue
		}
		f.last++
		s.sequence = f.last
		f.sent[s.sequence] = s
		size += bytes
		req.Tasks = append(req.Tasks, &taskenginev1.StreamedTask{Sequence: s.sequence, Task: s.message})
	}
	f.queue = slices.Delete(f.queue, 0, n)
	return req
}

// requeue moves submissions without an outcome to the front of the queue, in the order of sending.
func (f *flow) requeue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := make([]*submission, 0, len(f.sent)+len(f.queue))
	for _, s := range f.sent {
		again = append(again, s)
	}
	clear(f.sent)
	slices.SortFunc(again, func(a, b *submission) int { return int(int64(a.sequence - b.sequence)) })
	f.queue = append(again, f.queue...)
}

// sendUnary sends the queue by unary requests.
func (f *flow) sendUnary(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.client.options.Timeout)
	defer cancel()
	for ctx.Err() == nil {
		req := f.take()
		if len(req.GetTasks()) == 0 {
			return
		}
		f.settle(ctx, req.GetTasks())
	}
}

// settle sends tasks by one request, or by several if one of them is refused.
func (f *flow) settle(ctx context.Context, tasks []*taskenginev1.StreamedTask) {
	req := new(taskenginev1.SubmitRequest)
	for _, t := range tasks {
		req.Tasks = append(req.Tasks, t.GetTask())
	}
	receipts, err := f.client.submitUnary(ctx, req)
	isOfOne := errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrBacklog)
	if half := len(tasks) / 2; isOfOne && half > 0 {
		f.settle(ctx, tasks[:half])
		f.settle(ctx, tasks[half:])
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range tasks {
		s := f.sent[t.GetSequence()]
		delete(f.sent, t.GetSequence())
		switch {
		case receipts != nil:
			o := Outcome{Err: refusal(t.GetTask(), receipts[i])}
			if o.Err == nil {
				o.Receipt = receipts[i]
			}
			s.finish(o)
			f.answered, f.trouble = f.answered+1, nil
		case mayRepeat(err) || ctx.Err() != nil:
			f.trouble = err
			f.queue = append(f.queue, s)
		default:
			s.finish(Outcome{Err: err})
			f.answered++
		}
	}
}
