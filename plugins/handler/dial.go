package handler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	greetingTime  = 10 * time.Second // for a connection until its welcome
	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second
	urgentPause   = time.Second // the longest while there are answers: a node that has started awaits them for a short time
	pingsPerLife  = 4           // checks within the longest silence of a node
)

// errNoWelcome is why a connection is given up that a node does not greet.
var errNoWelcome = fmt.Errorf("the node did not answer within %v", greetingTime)

// dialer keeps the connection of a worker to one node. One goroutine calls run.
type dialer struct {
	program Program
	to      Connection
	address string
	slots   int
	log     *slog.Logger

	session *session
	id      [16]byte      // of the session
	patient time.Duration // how long the node keeps the runs of the session without a connection
	cutOff  time.Time     // when the node gives the runs to others; zero while there is a connection, or no run
	said    string        // the newest error that was logged
}

// run runs tasks for the node until it drains the worker, or until ctx has ended and everything is answered.
func (d *dialer) run(ctx context.Context) {
	d.session = newSession(d.program.Handlers, d.slots)
	d.session.kept = newKept()
	defer d.session.close()
	d.renew()
	stop := context.AfterFunc(ctx, d.session.leave)
	defer stop()
	leaving := ctx.Done()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		welcomed, err := d.connect(ctx)
		switch {
		case err == nil:
			d.session.await(lastMoments) // for runs that were cut off
			return
		case welcomed:
			pause, d.said = shortestPause, ""
			d.cutOff = time.Now().Add(d.patient)
		}
		if text := err.Error(); text != d.said {
			d.said = text
			d.log.Warn("no connection to the node", "address", d.address, "error", err)
		}
		if d.session.hasAnswers() {
			pause = min(pause, urgentPause)
		}
		wait := pause/2 + mathrand.N(pause/2)
		if !d.cutOff.IsZero() {
			wait = min(wait, max(0, time.Until(d.cutOff)))
		}
		select {
		case <-time.After(wait):
		case <-leaving:
			leaving = nil
		}
		if !d.cutOff.IsZero() && !time.Now().Before(d.cutOff) {
			d.session.lose()
			d.renew()
			d.cutOff = time.Time{}
		}
		if ctx.Err() != nil && d.session.isIdle() {
			d.session.await(lastMoments)
			return
		}
	}
}

// renew begins with a new session. The node lets the runs of the one before end by itself.
func (d *dialer) renew() { _, _ = rand.Read(d.id[:]) } // it never fails

// connect opens a connection and runs tasks until it ends. It returns nil if the worker is to end, and whether the node
// had welcomed it.
func (d *dialer) connect(ctx context.Context) (welcomed bool, err error) {
	target, access, err := d.target()
	if err != nil {
		return false, err
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(access), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(4<<20), grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	life, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if d.to.Token != "" {
		life = metadata.AppendToOutgoingContext(life, "authorization", "Bearer "+d.to.Token)
	}
	wait := greetingTime
	if !d.cutOff.IsZero() {
		wait = min(wait, max(time.Millisecond, time.Until(d.cutOff)))
	}
	late := time.AfterFunc(wait, func() { cancel(errNoWelcome) })
	defer late.Stop()
	offered := sinceBoot()
	s, welcome, err := d.greet(life, conn)
	if err == nil && !late.Stop() {
		err = errNoWelcome
	}
	if err != nil {
		return false, explain(life, err)
	}
	d.patient, d.cutOff = time.Duration(welcome.GetReconnect())*time.Microsecond, time.Time{}
	d.log.Info("connected to the node", "address", d.address, "node", welcome.GetHost(), "handler", welcome.GetName(), "slots", welcome.GetSlots(), "resumed", welcome.GetResumed())
	d.session.resume(welcome, offered)
	if ctx.Err() != nil {
		d.session.leave()
	}
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() { d.session.send(s, over) })
	all.Go(func() { d.listen(time.Duration(welcome.GetLiveness())*time.Microsecond, over, cancel) })
	err = d.session.receive(s)
	close(over)
	err = explain(life, err)
	cancel(nil) // the sender may wait for the node to read
	all.Wait()
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return true, err
}

// target returns the address as a gRPC library writes it, and the credentials of connections to it.
func (d *dialer) target() (string, credentials.TransportCredentials, error) {
	target, secure, err := target(d.address, d.to.TLS != nil)
	if secure {
		return target, credentials.NewTLS(d.to.TLS), err
	}
	return target, insecure.NewCredentials(), err
}

// greet opens the stream, and exchanges offer and welcome.
func (d *dialer) greet(ctx context.Context, conn *grpc.ClientConn) (stream, *wire.Welcome, error) {
	s, err := wire.NewWorkersClient(conn).Work(ctx)
	if err != nil {
		return nil, nil, err
	}
	host, _ := os.Hostname() // without it, the process has to do
	err = s.Send(&wire.FromHandler{Clock: time.Now().UnixMicro(), Hello: d.program.hello(d.slots), Offer: &wire.Offer{
		Handler: d.to.Handler, Labels: d.to.Labels, Session: d.id[:], Runs: d.session.holds(), Name: fmt.Sprintf("%s:%d", cmp.Or(host, "process"), os.Getpid()),
	}})
	if err != nil && !errors.Is(err, io.EOF) { // Recv returns the reason
		return nil, nil, err
	}
	frame, err := s.Recv()
	switch welcome := frame.GetWelcome(); {
	case err != nil:
		return nil, nil, err
	case welcome.GetProtocol() != wire.Protocol:
		return nil, nil, fmt.Errorf("the node speaks version %d of the protocol, this worker version %d", welcome.GetProtocol(), wire.Protocol)
	case welcome.GetSlots() == 0:
		return nil, nil, errors.New("the node gives the worker no slot")
	default:
		return s, welcome, nil
	}
}

// explain returns why the connection ended: the cause of its context, or the message of the node.
func explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if s, ok := status.FromError(err); ok && !errors.Is(err, io.EOF) {
		return errors.New(s.Message())
	}
	return err
}

// listen ends the connection when the node has been silent for life. Zero is no bound.
func (d *dialer) listen(life time.Duration, over <-chan struct{}, end context.CancelCauseFunc) {
	if life <= 0 {
		return
	}
	ticker := time.NewTicker(max(1, life/pingsPerLife))
	defer ticker.Stop()
	for missed := 0; missed <= pingsPerLife; missed++ {
		select {
		case <-over:
			return
		case <-ticker.C:
			if d.session.heard.Swap(false) {
				missed = -1
			}
		}
	}
	end(fmt.Errorf("the node was silent for %v", life))
}
