package main

import (
	"log/slog"
	"net/http"
	"os"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/console"
)

// consoleHandler gives the console's pages over an open central. Secure tells that they are
// served over TLS.
func consoleHandler(c *central.Central, secure bool) http.Handler {
	return console.New(console.Options{Central: c, TLS: secure, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// metricsHandler gives /metrics over an open central.
func metricsHandler(c *central.Central, log *slog.Logger) http.Handler {
	return console.Metrics(c, time.Now, log)
}
