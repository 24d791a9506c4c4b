package handler

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// worker serves the one stream of the process.
type worker struct {
	wire.UnimplementedHandlerServer
	program Program
	taken   atomic.Bool
	met     chan struct{} // closed when the stream is open
	over    chan struct{} // closed when the stream has ended
}

// Work implements the method of the protocol. The host calls it once.
func (w *worker) Work(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	if w.taken.Swap(true) {
		return status.Error(codes.FailedPrecondition, "a handler process has one stream, and it is open")
	}
	close(w.met)
	defer close(w.over)
	frame, err := stream.Recv()
	if err != nil {
		return err
	}
	welcome := frame.GetWelcome()
	if welcome.GetProtocol() != wire.Protocol {
		return status.Errorf(codes.FailedPrecondition, "the host speaks version %d of the protocol, this handler version %d",
			welcome.GetProtocol(), wire.Protocol)
	}
	slots := w.program.Slots
	if welcome.GetSlots() > 0 {
		slots = int(welcome.GetSlots())
	}
	s := newSession(w.program.Handlers, slots)
	defer s.close()
	s.terms = termsOf(welcome)
	err = stream.Send(&wire.FromHandler{Hello: w.program.hello(slots), Credits: uint32(slots)})
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	sent := make(chan struct{})
	sender.Go(func() { s.send(stream, sent) })
	err = s.receive(stream)
	s.cancel(errors.New("the host is gone"))
	s.await(lastMoments)
	close(sent)
	sender.Wait()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// hello returns the hello of the program.
func (p Program) hello(slots int) *wire.Hello {
	hello := &wire.Hello{
		Protocol: wire.Protocol, Sdk: "go", SdkVersion: Version, Version: p.Version, Slots: uint32(slots),
	}
	for t := range p.Handlers {
		hello.Types = append(hello.Types, t)
	}
	slices.Sort(hello.Types)
	return hello
}

// Version is the version of this package in the hello.
const Version = "1.0.0"
