package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/taskengine/taskengine/config"
)

func ExampleLoad() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "taskengine.yaml")
	text := `
handlers:
  mail: {exec: [sendmail, -t]}
types:
  mail: {concurrency: 20, timeout: {run: 10m}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	c, err := config.Load(file, []string{"types.mail.concurrency=2"}, os.LookupEnv)
	if err != nil {
		panic(err)
	}
	mail := c.Types["mail"]
	fmt.Println(mail.Handler, mail.Concurrency, mail.Timeout.Run, mail.Retry.Max)
	// Output: mail 2 10m0s 10
}

func ExampleErrors_Detail() {
	_, err := config.Load("", []string{"node.slot=5", "node.drain_timeout=30"}, os.LookupEnv)
	var problems *config.Errors
	if errors.As(err, &problems) {
		fmt.Print(problems.Detail())
	}
	// Output:
	// --set node.slot: node: slot is no key; did you mean slots?
	// --set | node.slot=5
	//       | ^
	//
	// --set node.drain_timeout: node.drain_timeout: 30 needs a unit, such as 30s
	// --set | node.drain_timeout=30
	//       |                    ^
}
