package conform_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// faultyWorker is a worker without an SDK that has one fault: "none" is one without.
type faultyWorker struct {
	fault   string
	session [16]byte

	mu      sync.Mutex // guards the fields below
	kept    []*wire.Finish
	arrived uint64
	runs    map[uint64]*wire.Run
	waiting map[uint64]bool                                            // runs of the type wait, which end when they are cancelled
	stream  grpc.BidiStreamingClient[wire.FromHandler, wire.ToHandler] // nil while there is none
	heard   time.Time
}

func (w *faultyWorker) main() {
	w.runs, w.waiting = make(map[uint64]*wire.Run), make(map[uint64]bool)
	_, _ = rand.Read(w.session[:])
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		switch w.fault {
		case "dies of SIGTERM":
			os.Exit(0)
		case "ignores SIGTERM":
			return
		}
		w.send(&wire.FromHandler{Leaving: true})
		if w.fault == "cancels on SIGTERM" {
			w.stop(func(uint64) bool { return true })
		}
	}()
	if w.fault == "does not connect" {
		time.Sleep(time.Hour)
	}
	conn, err := grpc.NewClient("dns:///"+os.Getenv("TASKENGINE_ADDRESS"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		panic(err)
	}
	for {
		err := w.serve(conn)
		switch {
		case errors.Is(err, io.EOF) && w.fault == "exits with status 3":
			os.Exit(3)
		case errors.Is(err, io.EOF) && w.fault != "does not end":
			os.Exit(0)
		case w.fault == "gives up":
			os.Exit(1)
		case w.fault != "does not say why":
			fmt.Fprintln(os.Stderr, status.Convert(err).Message())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// serve serves one stream and returns how it ended.
func (w *faultyWorker) serve(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.fault != "no token" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+os.Getenv("TASKENGINE_TOKEN"))
	}
	stream, err := wire.NewWorkersClient(conn).Work(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(w.first()); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	frame, err := stream.Recv()
	if err != nil {
		return err
	}
	welcome := frame.GetWelcome()
	w.resume(stream, welcome)
	defer w.resume(nil, nil)
	if welcome.GetLiveness() > 0 && w.fault != "waits for ever" {
		over := make(chan struct{})
		defer close(over)
		go w.listen(time.Duration(welcome.GetLiveness())*time.Microsecond, over, cancel)
	}
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.heard = time.Now()
		if w.fault != "ignores received" {
			w.acknowledge(frame.GetReceived())
		}
		w.mu.Unlock()
		w.wait(frame)
		f := faulty{fault: w.fault, seen: new(seen)}
		for _, answer := range f.answers(frame) {
			w.send(answer)
		}
	}
}

// wait notes the runs of a frame, takes the runs of the type wait out of it, and ends the runs that it cancels.
func (w *faultyWorker) wait(frame *wire.ToHandler) {
	w.mu.Lock()
	rest := frame.GetRuns()[:0]
	for _, run := range frame.GetRuns() {
		w.runs[run.GetRunId()] = run
		if run.GetType() == "wait" {
			w.waiting[run.GetRunId()] = true
		} else {
			rest = append(rest, run)
		}
	}
	frame.Runs = rest
	w.mu.Unlock()
	for _, c := range frame.GetCancels() {
		w.stop(func(id uint64) bool { return id == c.GetRunId() })
	}
}

// stop answers runs that wait.
func (w *faultyWorker) stop(which func(id uint64) bool) {
	w.mu.Lock()
	var ids []uint64
	for id := range w.waiting {
		if which(id) {
			ids = append(ids, id)
			delete(w.waiting, id)
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		why := &wire.Error{Class: "cancelled", Message: "it was cancelled", InDoubt: true}
		w.send(&wire.FromHandler{Finishes: []*wire.Finish{{RunId: id, Outcome: &wire.Finish_Error{Error: why}}}, Credits: 1})
	}
}

func (w *faultyWorker) listen(life time.Duration, over <-chan struct{}, cancel context.CancelFunc) {
	for {
		select {
		case <-over:
			return
		case <-time.After(life / 4):
		}
		w.mu.Lock()
		silent := time.Since(w.heard) > life
		w.mu.Unlock()
		if silent {
			cancel()
			return
		}
	}
}

// first returns the first frame of a stream.
func (w *faultyWorker) first() *wire.FromHandler {
	w.mu.Lock()
	defer w.mu.Unlock()
	offer := &wire.Offer{Session: w.session[:]}
	for _, f := range w.kept {
		if f.GetEarlier() == nil && w.fault != "offers no runs" {
			offer.Runs = append(offer.Runs, f.GetRunId())
		}
	}
	for id := range w.waiting {
		if w.fault != "offers only what it has answered" {
			offer.Runs = append(offer.Runs, id)
		}
	}
	hello := &wire.Hello{Protocol: 1, Sdk: "none", Types: []string{"echo"}, Slots: 32}
	switch w.fault {
	case "waits", "offers only what it has answered", "stops tasks when the connection breaks", "goes on with lost tasks", "answers lost tasks", "cancels on SIGTERM":
		hello.Types = append(hello.Types, "describe", "wait")
	case "no offer":
		offer = nil
	case "a short session":
		offer.Session = offer.Session[:4]
	case "another session":
		_, _ = rand.Read(w.session[:])
	case "protocol 2":
		hello.Protocol = 2
	case "no types":
		hello.Types = nil
	}
	return &wire.FromHandler{Hello: hello, Offer: offer}
}

// acknowledge forgets finishes that have arrived. mu must be held.
func (w *faultyWorker) acknowledge(received uint64) {
	for ; w.arrived < received && len(w.kept) > 0; w.arrived++ {
		w.kept = w.kept[1:]
	}
}

// resume goes on with a stream, or without one.
func (w *faultyWorker) resume(stream grpc.BidiStreamingClient[wire.FromHandler, wire.ToHandler], welcome *wire.Welcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stream, w.heard = stream, time.Now()
	if stream == nil {
		return
	}
	credits := welcome.GetSlots()
	var lost []*wire.Finish
	for id := range w.waiting {
		isOpen := welcome.GetResumed() && slices.Contains(welcome.GetRuns(), id)
		switch {
		case w.fault == "stops tasks when the connection breaks" || !isOpen && w.fault == "answers lost tasks":
			lost = append(lost, &wire.Finish{RunId: id, Outcome: &wire.Finish_Error{Error: &wire.Error{Class: "cancelled"}}})
			delete(w.waiting, id)
		case isOpen || w.fault == "goes on with lost tasks":
			credits--
		default:
			delete(w.waiting, id)
		}
	}
	switch {
	case welcome.GetResumed():
		w.acknowledge(welcome.GetReceived())
	case w.fault == "forgets its answers" || w.fault != "answers nodes that cannot know" && !slices.Contains(welcome.GetFeatures(), "earlier"):
		w.kept, w.arrived = nil, 0
	default:
		w.arrived = 0
		for _, f := range w.kept {
			if run := w.runs[f.GetRunId()]; run != nil && w.fault != "answers runs of before" {
				f.RunId, f.Earlier = 0, &wire.Attempt{TaskId: run.GetTaskId(), Version: run.GetVersion(), Type: run.GetType()}
			}
		}
	}
	w.kept = append(w.kept, lost...)
	again := w.kept
	if w.fault == "sends nothing again" {
		again = nil
	}
	if w.fault == "more credits than slots" {
		credits++
	}
	_ = stream.Send(&wire.FromHandler{Finishes: again, Credits: credits})
}

func (w *faultyWorker) send(f *wire.FromHandler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, f.GetFinishes()...)
	if w.stream != nil {
		_ = w.stream.Send(f)
	}
}
