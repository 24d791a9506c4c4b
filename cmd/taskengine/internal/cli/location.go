package cli

import (
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
)

const locationHelp = `A store is named by its configuration file, by pebble:FOLDER or bolt:FOLDER, or by the URL of a
PostgreSQL database; the schema there is "taskengine" unless a flag names another. Put the
password of a URL into PGPASSWORD or ~/.pgpass.`

// locate reads how a store is named on the command line; schema may be "".
func (a *app) locate(arg, schema string) (stores.Location, error) {
	return stores.Parse(arg, schema, func(file string) (*config.Config, error) {
		return (&configFlags{file: file}).load(a)
	})
}
