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
	maxResult = 8 << 20 // bytes, as the welcome says
	settling  = 300 * time.Millisecond
)

// session is a process that shook hands, and the stream to it. Its methods are called by
// the goroutine of the examination; another one reads.
type session struct {
	ctx       context.Context // of the examination
	proc      *process
	transport string
	patience  time.Duration
	welcome   *wire.Welcome
	stream    wire.Stream
	raw       io.Writer          // of a stream of lines: below it
	sever     context.CancelFunc // breaks the stream
	over      chan struct{}      // closed when reading has ended
	lastRun   uint64
	lastPing  uint64

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	first    *wire.FromHandler
	ended    error // why reading ended; nil while it goes on
	credits  int   // given so far
	sent     int   // runs so far
	tooMany  string
	asked    map[uint64]bool // pings
	pongs    map[uint64]bool
	runs     map[uint64]*wire.Run
	finishes map[uint64][]*wire.Finish
	heard    []said
	odd      []string
}

// said is what came of a run besides its finish: one of the three.
type said struct {
	late       bool // after its finish
	log        *wire.LogLine
	progress   *wire.Progress
	checkpoint *wire.Checkpoint
}

func (s said) run() uint64 {
	return max(s.log.GetRunId(), s.progress.GetRunId(), s.checkpoint.GetRunId())
}

// handshake is what the first line says.
type handshake struct {
	version, network, address, transport string
}

// parseHandshake reads the line, or says what is wrong with its form.
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

// connect opens the stream to a process that shook hands.
func (x *exam) connect(p *process, h handshake, welcome *wire.Welcome) (*session, error) {
	ctx, cancel := context.WithCancel(x.ctx)
	s := &session{
		ctx: x.ctx, proc: p, transport: h.transport, patience: x.Patience, welcome: welcome,
		over: make(chan struct{}), changed: make(chan struct{}),
		asked: map[uint64]bool{}, pongs: map[uint64]bool{}, runs: map[uint64]*wire.Run{}, finishes: map[uint64][]*wire.Finish{},
	}
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

// read takes in frames until the stream ends.
func (s *session) read() {
	defer close(s.over)
	for {
		frame, err := s.stream.Recv()
		s.mu.Lock()
		switch {
		case err == nil:
			s.take(frame)
		case s.raw != nil && !isEnd(err): // a line that is no frame: the next one may be
			s.wonder(err.Error())
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
	}
}

// isEnd reports whether nothing can follow in a stream of lines.
func isEnd(err error) bool {
	var file *fs.PathError
	return errors.Is(err, io.EOF) || errors.Is(err, wire.ErrLongLine) || errors.As(err, &file)
}

// take notes a frame. It is called with mu held.
func (s *session) take(f *wire.FromHandler) {
	if s.first == nil {
		s.first = f
	} else if f.GetHello() != nil {
		s.wonder("a hello after the first frame")
	}
	for _, l := range f.GetLogs() {
		s.hear(said{log: l})
	}
	for _, p := range f.GetProgress() {
		s.hear(said{progress: p})
	}
	for _, c := range f.GetCheckpoints() {
		s.hear(said{checkpoint: c})
	}
	for _, fin := range f.GetFinishes() { // what came with them counts as before them
		if s.runs[fin.GetRunId()] == nil {
			s.wonder(fmt.Sprintf("a finish of run %d, which it was not given", fin.GetRunId()))
		} else if len(s.finishes[fin.GetRunId()]) > 0 {
			s.wonder(fmt.Sprintf("another finish of run %d", fin.GetRunId()))
		}
		s.finishes[fin.GetRunId()] = append(s.finishes[fin.GetRunId()], fin)
	}
	if n := f.GetPong(); n != 0 {
		if !s.asked[n] {
			s.wonder(fmt.Sprintf("a pong with %d, without such a ping", n))
		}
		s.pongs[n] = true
	}
	s.credits += int(f.GetCredits())
	if slots := int(s.first.GetHello().GetSlots()); s.credits > slots+len(s.finishes) && s.tooMany == "" {
		s.tooMany = fmt.Sprintf("it has %d slots and had given %d credits when %d runs were answered", slots, s.credits, len(s.finishes))
	}
}

func (s *session) hear(what said) {
	const most = 10_000
	if id := what.run(); id != 0 && s.runs[id] == nil {
		s.wonder(fmt.Sprintf("a log line, progress or checkpoint of run %d, which it was not given", id))
	}
	what.late = len(s.finishes[what.run()]) > 0
	if len(s.heard) < most {
		s.heard = append(s.heard, what)
	}
}

func (s *session) wonder(what string) {
	const most = 100
	if len(s.odd) < most {
		s.odd = append(s.odd, what)
	}
}

// oddities returns what came though nobody asked for it.
func (s *session) oddities() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.odd)
}

// await waits until ok, which is called with mu held, and says that what it waits for did
// not come if it is not there in time.
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

// state says whether the process lives, and what it last wrote.
func (s *session) state() string {
	if s.proc.wait(pipePatience) {
		return "the process ended (" + s.proc.cmd.ProcessState.String() + ")" + s.proc.words()
	}
	return "the process lives" + s.proc.words()
}

// send sends a frame.
func (s *session) send(f *wire.ToHandler) error {
	return s.write(func() error { return s.stream.Send(f) })
}

// write has a frame written, which takes long if the program does not read.
func (s *session) write(frame func() error) error {
	timer := time.AfterFunc(s.patience+largePatience, s.sever)
	defer timer.Stop()
	defer context.AfterFunc(s.ctx, s.sever)()
	err := frame()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	return fmt.Errorf("the stream is broken: %w; %s", errors.Join(err, ended), s.state())
}

// begin gives a run an id and notes it as sent.
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

// do has a task run and returns its finish.
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

// saidOf returns what came of a run besides its finish.
func (s *session) saidOf(r *wire.Run) []said {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []said
	for _, what := range s.heard {
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

// settle gives what should not come so much time to come all the same.
func (s *session) settle(limit time.Duration) {
	select {
	case <-time.After(limit):
	case <-s.over:
	case <-s.ctx.Done():
	}
}

// kill ends the session and its process.
func (s *session) kill() {
	s.proc.kill()
	s.sever()
	<-s.over
}
