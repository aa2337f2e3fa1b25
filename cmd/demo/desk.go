package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"grattoir/cmd/internal/counter"
	"grattoir/device/sim"
)

const (
	terminalName = "DEMO-1"
	patience     = 30 * time.Second // for one slip of the machine, however busy
)

// desk is the counter with what the demonstration counts on it.
type desk struct {
	*counter.Counter
	paid int
}

func (d *demo) openDesk(ctx context.Context) (*desk, error) {
	chapter("terminald with a simulated scanner and printer")
	if err := os.WriteFile(d.path("terminald.toml"), []byte(d.configuration()), 0o600); err != nil {
		return nil, err
	}
	c, err := counter.Open(d.out, filepath.Join(d.bin, "terminald"), sim.PrinterOptions{Columns: 42})
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		c.Close()
		return nil, err
	}
	say("  page %s\n", c.Page)
	return &desk{Counter: c}, nil
}

func (d *demo) configuration() string {
	listen := freeAddress(d.listen)
	return fmt.Sprintf(`name = %q
data = "data"
socket = "terminald.sock"
keys = ["keys/demo-lottery.pub"]
claim_key = "keys/demo-claims.pub"
stand_alone = true
accept_scaled = true
operator = "Marie"
reserve_mb = 1

[shop]
name = "Tabac de la Gare"
address = ["1 place de la Gare", "29000 Quimper"]

[screen]
listen = %q

[scanner]
path = "scanner"

[printer]
path = "printer"
baud = 115200
profile = "generic-80"

[policy]
version = "demo-1"
currency = "EUR"
shop_limit_minor = 30000
confirm_cash_prize_minor = 10000
confirm_cash_total_minor = 10000
identity_prize_minor = 200000
identity_total_over_minor = 30000
claim_days = 30
`, terminalName, listen)
}

// freeAddress is the wanted one, or one with a free port when another program has it.
// It is chosen once, so that the page stays where it is over restarts.
func freeAddress(wanted string) string {
	for _, address := range []string{wanted, "127.0.0.1:0"} {
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			if address != wanted {
				say("  another program has %s\n", wanted)
			}
			return l.Addr().String()
		}
	}
	return wanted
}

// slip waits for the next slip and shows it as text.
func (c *desk) slip(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := c.Paper.Next(ctx)
	if err != nil {
		return "", fmt.Errorf("no slip came out: %w", err)
	}
	text := s.Text()
	_, err = indent{os.Stdout}.Write([]byte(text))
	return text, err
}

// picture stores a claim's slip as PNG, drawn from the same slip as the paper.
func (c *desk) picture(ctx context.Context, number, name string) error {
	png, err := c.Client.Slip(ctx, number)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, name), png, 0o600)
}
