package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	maxResult      = 8 << 20  // bytes, as the welcome says
	maxPayload     = 64 << 10 // bytes, as the welcome says
	unexpectedTime = 300 * time.Millisecond
)

// session is a process after its handshake and the stream to it. The goroutine of the examination calls its methods;
// another goroutine runs read.
type session struct {
	ctx       context.Context // of the examination
	proc      *program
	transport string
	patience  time.Duration
	welcome   *wire.Welcome
	stream    wire.Stream
	node      *node              // that a worker connects to; else nil
	link      *link              // the stream of a worker; else nil
	raw       io.Writer          // writer of a stream of lines
	sever     context.CancelFunc // breaks the stream
	over      chan struct{}      // closed when reading has ended
	lastRun   uint64
	lastPing  uint64

	mu       sync.Mutex // guards the fields below
	changed  chan struct{}
	first    *wire.FromHandler
	ended    error // why reading ended; nil while it goes on
	credits  int   // in all
	sent     int   // runs in all
	tooMany  string
	asked    map[uint64]bool // pings
	pongs    map[uint64]bool
	runs     map[uint64]*wire.Run
	finishes map[uint64][]*wire.Finish
	reports  []runReport
	checks   []*wire.Check
	reads    []*wire.ReadDocument
	odd      []string
	earlier  []*wire.Finish // of a worker, for attempts of sessions before
	leaving  bool           // a worker has said that it leaves
	withhold bool           // checkpoints are not answered

	sending sync.Mutex // guards writing to the stream
}

// runReport is a message about a run other than its finish. One of log, progress and checkpoint is set.
type runReport struct {
	late       bool // it came after the finish
	log        *wire.LogLine
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
}

func (r runReport) run() uint64 {
	return max(r.log.GetRunId(), r.progress.GetRunId(), r.checkpoint.GetRunId())
}

// handshake is the content of the first line.
type handshake struct {
	version, network, address, transport string
}

// parseHandshake parses the first line.
func parseHandshake(line string) (handshake, error) {
	f := strings.Split(line, "|")
	if len(f) != 6 || f[0] != "1" || f[5] != "" {
		return handshake{}, fmt.Errorf("its first line is %.200q", line)
	}
	h := handshake{version: f[1], network: f[2], address: f[3], transport: f[4]}
	switch {
	case h.network == "unix" && h.transport == "grpc" && h.address != "":
	case h.network == "stdio" && h.transport == "json" && h.address == "":
	default:
		return handshake{}, fmt.Errorf("its first line is %.200q", line)
	}
	return h, nil
}

// newSession returns the session of a process, without a stream.
func (x *exam) newSession(p *program, transport string, welcome *wire.Welcome) *session {
	return &session{
		ctx: x.ctx, proc: p, transport: transport, patience: x.Patience, welcome: welcome,
		over: make(chan struct{}), changed: make(chan struct{}),
		asked: map[uint64]bool{}, pongs: map[uint64]bool{}, runs: map[uint64]*wire.Run{}, finishes: map[uint64][]*wire.Finish{},
	}
}

// connect opens the stream to a process after its handshake.
func (x *exam) connect(p *program, h handshake, welcome *wire.Welcome) (*session, error) {
	ctx, cancel := context.WithCancel(x.ctx)
	s := x.newSession(p, h.transport, welcome)
	if h.transport == "json" {
		s.stream, s.raw = wire.NewLines(p.lines, p.stdin, 4*maxResult), p.stdin
		s.sever = func() {
			cancel()
			p.stdin.Close()
			_ = p.stdout.SetReadDeadline(time.Now())
		}
	} else {
		p.drainOutput()
		conn, err := grpc.NewClient("passthrough:///handler",
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, h.network, h.address)
			}),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResult+2*wire.FrameBytes), grpc.MaxCallSendMsgSize(math.MaxInt32)))
		if err != nil {
			cancel()
			return nil, err
		}
		s.sever = func() { conn.Close(); cancel() }
		if s.stream, err = wire.NewHandlerClient(conn).Work(ctx); err != nil {
			s.sever()
			return nil, fmt.Errorf("it does not serve the method Work at %s: %w", h.address, err)
		}
	}
	go s.read()
	if err := s.send(&wire.ToHandler{Welcome: welcome}); err != nil {
		return s, fmt.Errorf("the welcome could not be sent: %w", err)
	}
	return s, s.await("its first frame", func() bool { return s.first != nil })
}

// read records frames until the stream ends.
func (s *session) read() {
	defer close(s.over)
	for {
		frame, err := s.stream.Recv()
		var answers []*wire.Stored
		s.mu.Lock()
		switch {
		case err == nil:
			s.record(frame)
			if !s.withhold {
				answers = storedOf(frame)
			}
		case s.raw != nil && !isEnd(err): // a line that is no frame: the next one may be
			s.recordOddity(err.Error())
			err = nil
		default:
			s.ended = err
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
		if len(answers) > 0 {
			_ = s.send(&wire.ToHandler{Stored: answers}) // after an error reading ends, too
		}
	}
}

// storedOf returns the answers of a host that has stored the checkpoints in a frame.
func storedOf(f *wire.FromHandler) (out []*wire.Stored) {
	for _, k := range f.GetCheckpoints() {
		if k.GetNumber() != 0 {
			out = append(out, &wire.Stored{RunId: k.GetRunId(), Number: k.GetNumber()})
		}
	}
	return out
}

// isEnd reports whether no line can follow in a stream of lines.
func isEnd(err error) bool {
	var file *fs.PathError
	return errors.Is(err, io.EOF) || errors.Is(err, wire.ErrLongLine) || errors.As(err, &file)
}

// record records a frame. mu must be held.
func (s *session) record(f *wire.FromHandler) {
	if s.first == nil {
		s.first = f
	} else if f.GetHello() != nil {
		s.recordOddity("a hello after the first frame")
	}
	for _, l := range f.GetLogs() {
		s.recordReport(runReport{log: l})
	}
	for _, p := range f.GetProgress() {
		s.recordReport(runReport{progress: p})
	}
	for _, c := range f.GetCheckpoints() {
		s.recordReport(runReport{checkpoint: c})
	}
	for _, k := range f.GetChecks() {
		s.recordCheck(k)
	}
	for _, k := range f.GetReads() {
		s.recordRead(k)
	}
	s.leaving = s.leaving || f.GetLeaving()
	for _, fin := range f.GetFinishes() { // the other messages of the frame count as before them
		if s.node != nil && fin.GetEarlier() != nil {
			s.earlier = append(s.earlier, fin)
			continue
		}
		if s.runs[fin.GetRunId()] == nil {
			s.recordOddity(fmt.Sprintf("a finish of run %d, which it was not given", fin.GetRunId()))
		} else if len(s.finishes[fin.GetRunId()]) > 0 {
			s.recordOddity(fmt.Sprintf("another finish of run %d", fin.GetRunId()))
		}
		s.finishes[fin.GetRunId()] = append(s.finishes[fin.GetRunId()], fin)
	}
	if n := f.GetPong(); n != 0 {
		if !s.asked[n] {
			s.recordOddity(fmt.Sprintf("a pong with %d, without such a ping", n))
		}
		s.pongs[n] = true
	}
	s.credits += int(f.GetCredits())
	if slots := s.slots(); s.credits > slots+len(s.finishes)+len(s.earlier) && s.tooMany == "" {
		s.tooMany = fmt.Sprintf("it has %d slots and had given %d credits when %d runs were answered", slots, s.credits, len(s.finishes))
	}
}

func (s *session) recordReport(r runReport) {
	const most = 10_000
	if id := r.run(); id != 0 && s.runs[id] == nil {
		s.recordOddity(fmt.Sprintf("a log line, progress or checkpoint of run %d, which it was not given", id))
	}
	r.late = len(s.finishes[r.run()]) > 0
	if len(s.reports) < most {
		s.reports = append(s.reports, r)
	}
}

func (s *session) recordCheck(k *wire.Check) {
	const most = 100
	if s.runs[k.GetRunId()] == nil {
		s.recordOddity(fmt.Sprintf("a check of run %d, which it was not given", k.GetRunId()))
	}
	if len(s.checks) < most {
		s.checks = append(s.checks, k)
	}
}

func (s *session) recordRead(k *wire.ReadDocument) {
	const most = 100
	if s.runs[k.GetRunId()] == nil {
		s.recordOddity(fmt.Sprintf("a read of a document by run %d, which it was not given", k.GetRunId()))
	}
	if len(s.reads) < most {
		s.reads = append(s.reads, k)
	}
}

func (s *session) recordOddity(what string) {
	const most = 100
	if len(s.odd) < most {
		s.odd = append(s.odd, what)
	}
}

// oddities returns the unexpected messages.
func (s *session) oddities() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.odd)
}

// await waits until ok returns true; ok is called with mu held. After s.patience it returns an error about what.
func (s *session) await(what string, ok func() bool) error {
	return s.awaitFor(s.patience, what, ok)
}

func (s *session) awaitFor(patience time.Duration, what string, ok func() bool) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		done, ended, changed := ok(), s.ended, s.changed
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case ended != nil:
			return fmt.Errorf("instead of %s came the end of the stream (%w); %s", what, ended, s.state())
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("%s did not come within %v; %s", what, patience, s.state())
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// state says whether the process has ended, with the end of its standard error.
func (s *session) state() string {
	if s.proc.wait(drainTime) {
		return "the process ended (" + s.proc.cmd.ProcessState.String() + ")" + s.proc.lastErrors()
	}
	return "the process lives" + s.proc.lastErrors()
}

// send sends a frame.
func (s *session) send(f *wire.ToHandler) error {
	return s.write(func() error { return s.stream.Send(f) })
}

// write calls frame, which writes a frame. It breaks the stream if that takes too long because the program does not read.
func (s *session) write(frame func() error) error {
	timer := time.AfterFunc(s.patience+largePatience, s.sever)
	defer timer.Stop()
	defer context.AfterFunc(s.ctx, s.sever)()
	s.sending.Lock()
	err := frame()
	s.sending.Unlock()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	return fmt.Errorf("the stream is broken: %w; %s", errors.Join(err, ended), s.state())
}

// begin gives runs their ids and records them as sent.
func (s *session) begin(runs ...*wire.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runs {
		if r.RunId == 0 {
			s.lastRun++
			r.RunId = s.lastRun
		}
		s.runs[r.GetRunId()] = r
		s.sent++
	}
}

// submit sends runs in one frame once there are credits for them.
func (s *session) submit(runs ...*wire.Run) error {
	if err := s.await(fmt.Sprintf("credit for %d runs", len(runs)), func() bool { return s.credits-s.sent >= len(runs) }); err != nil {
		return err
	}
	s.begin(runs...)
	return s.send(&wire.ToHandler{Runs: runs})
}

// finish waits for the finish of a run.
func (s *session) finish(r *wire.Run) (*wire.Finish, error) {
	return s.finishWithin(s.patience, r)
}

func (s *session) finishWithin(patience time.Duration, r *wire.Run) (f *wire.Finish, err error) {
	err = s.awaitFor(patience, fmt.Sprintf("the finish of a run of the type %q", r.GetType()), func() bool {
		if all := s.finishes[r.GetRunId()]; len(all) > 0 {
			f = all[0]
		}
		return f != nil
	})
	return f, err
}

// do sends a run and returns its finish.
func (s *session) do(r *wire.Run) (*wire.Finish, error) {
	if err := s.submit(r); err != nil {
		return nil, err
	}
	return s.finish(r)
}

// count returns how many finishes of a run have come.
func (s *session) count(r *wire.Run) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.finishes[r.GetRunId()])
}

// reportsOf returns the reports of a run.
func (s *session) reportsOf(r *wire.Run) []runReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runReport
	for _, what := range s.reports {
		if what.run() == r.GetRunId() {
			out = append(out, what)
		}
	}
	return out
}

// ping returns a frame with the next ping.
func (s *session) ping() *wire.ToHandler {
	s.lastPing++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[s.lastPing] = true
	return &wire.ToHandler{Ping: s.lastPing}
}

// pong waits for the answer to the last ping.
func (s *session) pong() error {
	n := s.lastPing
	return s.await(fmt.Sprintf("the pong for ping %d", n), func() bool { return s.pongs[n] })
}

// probe sends a ping and waits for its pong.
func (s *session) probe() error {
	if err := s.send(s.ping()); err != nil {
		return err
	}
	return s.pong()
}

// waitForUnexpected waits, so that a message that should not come is recorded if it comes.
func (s *session) waitForUnexpected(limit time.Duration) {
	select {
	case <-time.After(limit):
	case <-s.over:
	case <-s.ctx.Done():
	}
}

// kill kills the process and ends the session.
func (s *session) kill() {
	s.proc.kill()
	s.sever()
	<-s.over
	if s.node != nil {
		s.node.stop()
	}
}
