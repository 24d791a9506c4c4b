// Shop is a web service that charges cards by tasks: it adds a task for each order, runs the tasks in its own process, and
// reports their outcomes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

// Order is the body of a request.
type Order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Receipt is the result of a charge.
type Receipt struct {
	Number string `json:"receipt"`
}

// Charge is the type of the tasks.
var Charge = client.Type[Order, Receipt]("charge")

// charge runs a task. It may run twice, after a crash: a payment service recognizes the second run by the order's id.
func charge(_ context.Context, _ *task.Task, o Order) (Receipt, error) {
	return Receipt{Number: "R-" + o.ID}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(os.Getenv("TASKENGINE_ADDRESS"), ","), os.Getenv("PORT")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, nodes []string, port string) error {
	c, err := client.Open(nodes, client.Options{Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	shop := &shop{c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", shop.add)
	mux.HandleFunc("GET /orders/{id}", shop.get)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	var all sync.WaitGroup
	all.Go(func() { // until ctx ends, and the tasks that have begun are answered
		program := handler.Program{Handlers: handler.Handlers{"charge": handler.JSON(charge)}}
		if err := program.Work(ctx, handler.Connection{Addresses: nodes}); err != nil {
			log.Print(err)
		}
	})
	all.Go(func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(closing)
	})
	log.Printf("listening on %s", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	all.Wait()
	log.Print("closed")
	return nil
}

type shop struct{ tasks *client.Client }

// add accepts an order. It may be repeated: the id of the order is the key of its task.
func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.ID == "" || o.Cents <= 0 {
		reply(w, http.StatusBadRequest, map[string]any{"error": "an order has an id and cents"})
		return
	}
	receipt, err := Charge.Submit(r.Context(), s.tasks, o, client.Key(o.ID))
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusAccepted, map[string]any{"task": receipt.ID.String()})
}

// get answers with the outcome of an order, and waits up to 10 s for it.
func (s *shop) get(w http.ResponseWriter, r *http.Request) {
	found, err := s.tasks.Find(r.Context(), "charge", r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	receipt, err := Charge.Result(ctx, s.tasks, found.ID)
	var ended *client.NotDoneError
	switch {
	case err == nil:
		reply(w, http.StatusOK, map[string]any{"state": "done", "receipt": receipt.Number})
	case errors.As(err, &ended):
		reply(w, http.StatusOK, map[string]any{"state": ended.State, "error": ended.Reason})
	case ctx.Err() != nil:
		reply(w, http.StatusAccepted, map[string]any{"state": "running"})
	default:
		fail(w, err)
	}
}

// fail answers with the status that an error means.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, client.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, client.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, client.ErrBacklog), errors.Is(err, client.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	}
	reply(w, status, map[string]any{"error": err.Error()})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error says that the caller is gone
}
