package publish_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/taskengine/taskengine/internal/kafkatest"
	"github.com/taskengine/taskengine/kafka"
	"github.com/taskengine/taskengine/kafka/publish"
	"github.com/taskengine/taskengine/task"
)

// A record that the user may not write is an error at once, which names the missing right. It says so until the right is
// there, and then the same handler writes. Topics that the user may write to go on meanwhile.
func TestARecordThatTheUserMayNotWriteIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1, kafkatest.WithUsers(map[string]string{"admin": "admin-secret", "te": "te-secret"}), kafkatest.WithLines(
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:admin;User:ANONYMOUS"))
	as := func(user string) kafka.Connection {
		of := connection(c)
		of.SASL = &kafka.SASL{Mechanism: kafka.Plain, User: user, Secret: func() (string, error) { return user + "-secret", nil }}
		return of
	}
	client, err := as("admin").Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	kafkatest.CreateTopic(t, admin, 1, 1, nil, "open", "sealed")
	allow := func(rights *kadm.ACLBuilder) {
		t.Helper()
		made, err := admin.CreateACLs(t.Context(), rights.ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:te"))
		if err != nil || made[0].Err != nil {
			t.Fatal(err, made)
		}
	}
	to := publish.Mapping{TopicFrom: "headers.to"}
	plain := open(t, publish.Config{Connection: as("te"), Mapping: to})
	transactional := open(t, publish.Config{Connection: as("te"), Mapping: to, TransactionalID: "tx"})
	send := func(h *publish.Handler, topic string) error {
		given := newTask("x")
		given.Headers = map[string]string{"to": topic}
		_, err := h.Handle(t.Context(), given)
		return err
	}
	refused := func(h *publish.Handler, topic, advice string) {
		t.Helper()
		// The controller may tell the broker of a right later.
		var err error
		await(t, "an error with: "+advice, func() bool {
			err = send(h, topic)
			return err == nil || strings.Contains(err.Error(), advice)
		}, func() string { return err.Error() })
		if v := task.VerdictOf(nil, err); !v.GiveUp || v.InDoubt || v.Class != kafka.NotAuthorised {
			t.Errorf("%v: %+v", err, v)
		}
	}
	written := func(h *publish.Handler, topic string) {
		t.Helper()
		var err error
		await(t, "a record in "+topic, func() bool { err = send(h, topic); return err == nil }, func() string { return err.Error() })
	}
	refused(plain, "open", "the user may not write to topic open; allow it to, by an ACL for WRITE")
	refused(transactional, "open", "the user may not use the transactional id; allow it to, by ACLs for WRITE and DESCRIBE")
	allow(kadm.NewACLs().Topics("open", "sealed").Operations(kadm.OpDescribe))
	refused(plain, "open", "the user may not write with idempotence; allow it to, by an ACL for IDEMPOTENT_WRITE")
	allow(kadm.NewACLs().Topics("open").Operations(kadm.OpWrite))
	written(plain, "open")
	allow(kadm.NewACLs().TransactionalIDs("tx").Operations(kadm.OpWrite, kadm.OpDescribe))
	written(transactional, "open")
	for _, h := range []*publish.Handler{plain, transactional} {
		refused(h, "sealed", "the user may not write to topic sealed; allow it to, by an ACL for WRITE")
		written(h, "open")
	}
	allow(kadm.NewACLs().Topics("sealed").Operations(kadm.OpWrite))
	for _, h := range []*publish.Handler{plain, transactional} {
		written(h, "sealed")
		if down := h.Down(); down != "" {
			t.Errorf("the handler is down: %s", down)
		}
	}
}
