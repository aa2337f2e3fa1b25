// Package notify tells the service manager that started a program that it is ready, that
// it stops, and that it is alive. Where none did, it tells nobody. It is sd_notify(3)'s
// protocol: a datagram of NAME=VALUE to the socket that the environment names.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// Manager is who started the program; nil for nobody.
type Manager struct {
	socket string
	every  time.Duration // 0 where no sign of life is wanted
}

// Find is the manager that the environment names, nil for none. The names are taken out of
// the environment: a program that this one starts must not speak for it.
func Find() *Manager {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name)
	}
	if socket == "" {
		return nil
	}
	m := &Manager{socket: socket}
	if n, err := strconv.ParseInt(usec, 10, 64); err == nil && n > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.every = time.Duration(n) * time.Microsecond / 3
	}
	return m
}

// Ready says that the program does its work from now on.
func (m *Manager) Ready() error { return m.send("READY=1") }

// Stopping says that it ends, and is not to be started again for that.
func (m *Manager) Stopping() error { return m.send("STOPPING=1") }

func (m *Manager) send(text string) error {
	if m == nil {
		return nil
	}
	conn, err := net.Dial("unixgram", m.socket) // a name that begins with @ has no file, as net knows
	if err != nil {
		return fmt.Errorf("service manager: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text)); err != nil {
		return fmt.Errorf("service manager: %w", err)
	}
	return nil
}

// Feed gives signs of life until ctx ends, each after alive has found nothing: three in the
// time in which the manager wants one. While alive fails, or does not come back, it gives
// none, and the manager ends the program and starts it again. Where no sign is wanted it
// returns at once.
func (m *Manager) Feed(ctx context.Context, alive func(context.Context) error, log *slog.Logger) {
	if m == nil || m.every == 0 {
		return
	}
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		soon, cancel := context.WithTimeout(ctx, m.every)
		err := alive(soon)
		cancel()
		if err == nil {
			err = m.send("WATCHDOG=1")
		}
		if err != nil && ctx.Err() == nil {
			log.Error("no sign of life given", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
