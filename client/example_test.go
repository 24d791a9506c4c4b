package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/taskengine/taskengine/client"
)

type Mail struct {
	To string `json:"to"`
}

type Sent struct {
	At time.Time `json:"at"`
}

// SendMail is the type of the tasks that send mail, with the payload and the result of its handler.
var SendMail = client.Type[Mail, Sent]("mail")

func Example() {
	c, err := client.Open([]string{"10.0.0.1:7420", "10.0.0.2:7420"}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	receipt, err := SendMail.Submit(ctx, c, Mail{To: "a@example.com"}, client.Key("welcome-17"), client.In(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, receipt.Created)
}

func ExampleClient_Submit() {
	var c *client.Client // see client.Open

	_, err := c.Submit(context.Background(), "mail", map[string]string{"to": "a@example.com"})
	switch {
	case errors.Is(err, client.ErrInvalid): // a mistake of this program
	case errors.Is(err, client.ErrBacklog): // later
	case errors.Is(err, client.ErrUnavailable): // no node answered in time: the task may have been added
	}
}

func ExampleClient_SubmitEach() {
	var c *client.Client // see client.Open

	var requests []client.Request
	for _, to := range []string{"a@example.com", "b@example.com"} {
		r, err := SendMail.New(Mail{To: to})
		if err != nil {
			log.Fatal(err)
		}
		requests = append(requests, r)
	}
	for i, o := range c.SubmitEach(context.Background(), requests...) {
		if o.Err != nil {
			log.Printf("mail %d was not accepted: %v", i, o.Err)
		}
	}
}

func ExampleType_Result() {
	var c *client.Client // see client.Open

	ctx := context.Background()
	receipt, err := SendMail.Submit(ctx, c, Mail{To: "a@example.com"})
	if err != nil {
		log.Fatal(err)
	}
	sent, err := SendMail.Result(ctx, c, receipt.ID) // waits for the task
	var ended *client.NotDoneError
	switch {
	case errors.As(err, &ended):
		log.Printf("the task is %s: %s", ended.State, ended.Reason)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(sent.At)
	}
}

func ExampleClient_Tasks() {
	var c *client.Client // see client.Open

	for t, err := range c.Tasks(context.Background(), client.TaskFilter{States: []client.State{client.StateError}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.ID, t.Error)
	}
}

func ExampleType_Payload() {
	var c *client.Client // see client.Open

	t, err := c.Find(context.Background(), string(SendMail), "welcome-17")
	if err != nil {
		log.Fatal(err)
	}
	mail, err := SendMail.Payload(t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mail.To, t.State, t.CreatedAt)
}

func ExampleClient_Cancel() {
	var c *client.Client // see client.Open

	ctx := context.Background()
	t, err := c.Find(ctx, "mail", "welcome-17")
	if err != nil {
		log.Fatal(err)
	}
	if t.State != client.StateWaiting {
		return
	}
	// If the task has changed since, such as that its handler runs now, the change is refused.
	if _, err := c.Cancel(ctx, t.ID, "the account was deleted", client.AtVersion(t.Version)); errors.Is(err, client.ErrConflict) {
		log.Print("too late")
	}
}

func ExampleClient_SetLimit() {
	var c *client.Client // see client.Open

	ctx := context.Background()
	limit, err := c.SetLimit(ctx, "partner", client.LimitChange{
		Value: "acme", Max: new(uint32(5)), Rate: &client.Rate{Count: 100, Per: time.Minute}, By: "the dashboard",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(limit.Max, limit.ConfiguredMax)
	if _, err := c.UnsetLimit(ctx, "partner", client.LimitUnset{Value: "acme"}); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_ApplySchedule() {
	var c *client.Client // see client.Open

	outcome, err := c.ApplySchedule(context.Background(), "nightly-report", client.ScheduleDefinition{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin", Overlap: client.OverlapQueue,
		Task: client.ScheduleTask{Type: "report", Payload: `{"day":"{{date}}"}`, Expires: time.Hour},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(outcome) // created, updated or unchanged
}

// The option takes the trace context of the caller along, here with the propagator of OpenTelemetry.
func ExampleOptions_decorate() {
	inject := func(ctx context.Context, headers map[string]string) {} // otel.GetTextMapPropagator().Inject(ctx, propagation.MapCarrier(headers))

	c, err := client.Open([]string{"unix:/run/taskengine/api.sock"}, client.Options{Decorate: func(ctx context.Context, r *client.Request) error {
		headers := make(map[string]string)
		inject(ctx, headers)
		for name, value := range headers {
			client.Header(name, value)(r)
		}
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}
