package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// firstFrame is how soon after the start of a stream its offer must come.
const firstFrame = 10 * time.Second

// maxName is the longest name of a worker that is kept.
const maxName = 200

// Service is the server for workers: it gives each worker to the pool of its handler.
type Service struct {
	wire.UnimplementedWorkersServer
	permit  Permit
	adds    Permit
	earlier Earlier
	pools   []*Pool // read only
}

// Permit returns an error, which has the status for the worker, unless the worker of ctx may run tasks of these types.
type Permit func(ctx context.Context, types ...string) error

// NewService returns the service of some pools. If permit is nil, every worker may run tasks of every type. Adds is a
// permit for the types of tasks that a worker adds; nil for all. If earlier is nil, workers do not send answers of sessions
// that the pools do not know.
func NewService(permit, adds Permit, earlier Earlier, pools ...*Pool) *Service {
	return &Service{permit: permit, adds: adds, earlier: earlier, pools: pools}
}

// Register adds the service to a server, which must allow received messages of [Pool.MaxFrame] bytes of each pool.
func (s *Service) Register(r grpc.ServiceRegistrar) { wire.RegisterWorkersServer(r, s) }

// MaxFrame returns how many bytes a frame of a worker may have.
func (p *Pool) MaxFrame() int {
	return p.cfg.MaxResult + p.cfg.MaxPayload + 2*wire.FrameBytes + task.MaxDocuments*(task.MaxDocument+4<<10)
}

// Work implements the method of the protocol.
func (s *Service) Work(stream grpc.BidiStreamingServer[wire.FromHandler, wire.ToHandler]) error {
	l := &link{stream: stream, ended: make(chan struct{})}
	if s.adds != nil {
		l.rights.Adds = func(types ...string) error { return s.adds(stream.Context(), types...) }
	}
	r := &reader{service: s, link: l, first: make(chan *wire.FromHandler, 1), worker: make(chan served, 1), over: make(chan struct{})}
	go r.run()
	late := time.NewTimer(firstFrame)
	defer late.Stop()
	var greeting *wire.FromHandler
	select {
	case greeting = <-r.first:
	case <-r.over:
		return status.Convert(r.err).Err()
	case <-late.C:
		return status.Errorf(codes.DeadlineExceeded, "no offer came within %v", firstFrame)
	}
	p, err := s.poolOf(greeting)
	if err != nil {
		return err
	}
	if s.permit != nil {
		if err := s.permit(stream.Context(), p.cfg.Types...); err != nil {
			return err
		}
	}
	l.rights.MayRead, l.rights.MayWrite = p.cfg.MayRead, p.cfg.MayWrite
	w, wake, welcome, err := p.attach(l, greeting)
	if err != nil {
		return err
	}
	if s.earlier != nil {
		welcome.Features = append(slices.Clone(welcome.GetFeatures()), earlierFeature)
	}
	if err := stream.Send(&wire.ToHandler{Welcome: welcome}); err != nil {
		p.broke(w, l, err)
		return err
	}
	r.worker <- served{p, w}
	go p.dispatch.Write(stream.Context(), w.session, wake, func(frame *wire.ToHandler) dispatch.Filled { return p.fill(w, l, frame) }, stream.Send)
	return p.watch(w, l, r)
}

// reader receives the frames of one connection, until the connection ends. It goes on after Work has returned, for as
// long as grpc needs to end the stream.
type reader struct {
	service *Service
	link    *link
	first   chan *wire.FromHandler // has the first frame
	worker  chan served            // has the receiver of the other frames
	over    chan struct{}          // closed after the last frame
	err     error                  // why; set before over is closed
}

// served is a worker and its pool.
type served struct {
	pool   *Pool
	worker *worker
}

func (r *reader) run() {
	defer close(r.over)
	frame, err := r.link.stream.Recv()
	if err != nil {
		r.err = err
		return
	}
	r.first <- frame
	var to served
	select {
	case to = <-r.worker:
	case <-r.link.stream.Context().Done():
		r.err = context.Cause(r.link.stream.Context())
		return
	}
	for {
		frame, err := r.link.stream.Recv()
		if err != nil {
			r.err = err
			return
		}
		r.link.pulse.Heard()
		r.service.endEarlier(to.pool, r.link, frame)
		to.pool.handleFrame(to.worker, r.link, frame)
	}
}

// watch returns when the connection of w ends, with the status for the worker. It pings the worker, and cuts it off if it
// is silent.
func (p *Pool) watch(w *worker, l *link, r *reader) error {
	interval := max(1, p.pingInterval())
	most := int((p.cfg.Liveness + interval - 1) / interval)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-l.ended:
			return l.why
		case <-r.over:
			p.broke(w, l, r.err)
			return r.err
		case <-ticker.C:
			p.mu.Lock()
			w.Ping()
			p.mu.Unlock()
			if l.pulse.Missed() > most {
				p.silent(w, l)
			}
		}
	}
}

// poolOf returns the pool for a worker that sent this first frame, or the status of an error.
func (s *Service) poolOf(frame *wire.FromHandler) (*Pool, error) {
	offer, hello := frame.GetOffer(), frame.GetHello()
	switch {
	case offer == nil || hello == nil:
		return nil, status.Error(codes.InvalidArgument, "the first frame of a worker must have an offer and a hello")
	case hello.GetProtocol() != wire.Protocol:
		return nil, status.Errorf(codes.FailedPrecondition, "the worker speaks version %d of the protocol, this node version %d", hello.GetProtocol(), wire.Protocol)
	case len(offer.GetSession()) != 16:
		return nil, status.Errorf(codes.InvalidArgument, "the session has %d bytes: give 16", len(offer.GetSession()))
	case hello.GetSlots() == 0:
		return nil, status.Error(codes.InvalidArgument, "the worker has no slot to run a task in")
	}
	offer.Name = printable(offer.GetName())
	var fitting []*Pool
	var names []string
	var misfits []error
	for _, p := range s.pools {
		names = append(names, p.cfg.Name)
		if want := offer.GetHandler(); want != "" && want != p.cfg.Name {
			continue
		}
		if err := p.misfit(offer, hello); err != nil {
			misfits = append(misfits, err)
			continue
		}
		fitting = append(fitting, p)
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > 1:
		return nil, status.Errorf(codes.FailedPrecondition, "the worker fits more than one handler (%s): it must name one", strings.Join(namesOf(fitting), ", "))
	case len(misfits) > 0:
		return nil, status.Error(codes.FailedPrecondition, errors.Join(misfits...).Error())
	case len(names) == 0:
		return nil, status.Error(codes.FailedPrecondition, "the node has no handler with remote: add one to its configuration")
	}
	return nil, status.Errorf(codes.NotFound, "the node has no handler %q with remote, only %s", offer.GetHandler(), strings.Join(names, ", "))
}

// printable returns a string from a worker, shortened and safe to print.
func printable(s string) string { return programlog.Shorten(programlog.Printable(s), maxName) }

func namesOf(pools []*Pool) []string {
	var names []string
	for _, p := range pools {
		names = append(names, p.cfg.Name)
	}
	return names
}

// misfit returns why a worker cannot run the tasks of the pool, or nil.
func (p *Pool) misfit(offer *wire.Offer, hello *wire.Hello) error {
	for _, typ := range p.cfg.Types {
		if !slices.Contains(hello.GetTypes(), typ) {
			return fmt.Errorf("a worker of handler %q has to serve the type %q: add it to the program, or name another handler for it in the configuration of the node", p.cfg.Name, typ)
		}
	}
	for key, want := range p.cfg.Labels {
		if got := offer.GetLabels()[key]; got != want {
			return fmt.Errorf("a worker of handler %q has to have the label %s=%s, this one has %q", p.cfg.Name, key, want, got)
		}
	}
	return nil
}
