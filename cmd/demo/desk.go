package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

func (d *demo) openDesk(ctx context.Context, central string) (*desk, error) {
	chapter("terminald with a simulated scanner and printer")
	if err := os.WriteFile(d.path("terminald.toml"), []byte(d.configuration(central)), 0o600); err != nil {
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

func (d *demo) configuration(central string) string {
	listen := counter.FreeAddress(d.listen)
	return fmt.Sprintf(`name = %q
data = "data"
socket = "terminald.sock"
accept_scaled = true
operator = "Marie"
reserve_mb = 1

[central]
url = %q

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
`, terminalName, central, listen)
}

// slip waits for the next slip and shows it as text.
func (c *desk) slip(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, err := c.Paper.Next(ctx)
		if err != nil {
			return "", fmt.Errorf("no slip came out: %w", err)
		}
		text := s.Text()
		if strings.TrimSpace(text) == "" {
			continue // the empty strip that keeps a torn slip apart from the next
		}
		_, err = indent{os.Stdout}.Write([]byte(text))
		return text, err
	}
}

// picture stores a claim's slip as PNG, drawn from the same slip as the paper.
func (c *desk) picture(ctx context.Context, number, name string) error {
	png, err := c.Client.Slip(ctx, number)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, name), png, 0o600)
}
