package client_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/client"
)

func TestTheEnvironmentNamesTheNodes(t *testing.T) {
	address, _ := newTasks(t).serve(t)
	t.Setenv("TASKENGINE_ADDRESS", "")
	if _, err := client.OpenEnv(client.Options{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("without an address: %v", err)
	}
	t.Setenv("TASKENGINE_ADDRESS", "127.0.0.1:1, http://"+address)
	for _, proxy := range []string{"http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(proxy, "http://127.0.0.1:1")
	}
	c, err := client.OpenEnv(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Limits(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheEnvironmentNamesTheFilesOfTLS(t *testing.T) {
	t.Setenv("TASKENGINE_ADDRESS", "localhost:1")
	for _, c := range []struct{ ca, cert, key, address, says string }{
		{ca: "/no/such/file", says: "/no/such/file"},
		{cert: "c.pem", says: "belong together"},
		{key: "k.pem", says: "belong together"},
		{cert: "/no/cert.pem", key: "/no/key.pem", says: "/no/cert.pem"},
	} {
		t.Setenv("TASKENGINE_CA", c.ca)
		t.Setenv("TASKENGINE_CLIENT_CERT", c.cert)
		t.Setenv("TASKENGINE_CLIENT_KEY", c.key)
		opened, err := client.OpenEnv(client.Options{})
		if err == nil {
			opened.Close()
		}
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		given, err := client.OpenEnv(client.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
		if err != nil {
			t.Errorf("with settings of its own: %v", err)
			continue
		}
		given.Close()
	}
}
