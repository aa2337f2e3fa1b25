package main

import (
	"log/slog"
	"net/http"
	"os"

	"grattoir/sync/central"
	"grattoir/sync/console"
)

// consoleHandler gives the dashboard's pages over central's store.
func consoleHandler(c *central.Central) http.Handler {
	return console.New(console.Options{DB: c.Reader(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}
