package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"grattoir/cmd/internal/pins"
	"grattoir/cmd/internal/stationery"
	"grattoir/configs"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/scanner"
	"grattoir/device/terminal"
	"grattoir/validate/ticket"
)

// Scanner and printer of a terminal whose daemon is down, opened by this program itself.

func glassConfig(c configs.Terminal) scanner.Config {
	return scanner.Config{Path: c.Scanner.Path, Baud: c.Scanner.Baud, Parity: c.Scanner.Parity, DataBits: c.Scanner.DataBits, Suffix: c.Scanner.Suffix, Prefix: c.Scanner.Prefix,
		Idle: time.Duration(c.Scanner.IdleMS) * time.Millisecond, Control: c.Scanner.Control, Layouts: ticket.Shipped, Whole: health.IsMark}
}

// quiet is the log of devices that are opened for a moment: what matters is in the check.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// connectIn is how long a device may take to show itself; a silent printer is asked three
// times for half a second.
const connectIn = 8 * time.Second

// scanner checks the scanner: by the daemon's word, or by opening it.
func (p *patient) scanner(ctx context.Context) health.Check {
	c := p.machine.Port(health.CheckScanner, p.config.Scanner.Path, p.machine.Owner(p.config.Data))
	switch {
	case p.daemon == health.DaemonUp:
		return asTold(c, p.status.Scanner != nil, health.Device(health.CheckScanner, fault(p.status.Scanner), "terminald reads it"))
	case p.daemon == health.DaemonSilent:
		return untouched(c)
	case c.State == health.Fail || c.State == health.Skipped:
		return c
	}
	glass, err := listen(ctx, glassConfig(p.config), func(scanner.Scan) {})
	if err != nil {
		return health.Config(p.configPath, err)
	}
	defer glass.stop()
	return p.opened(c, glass.fault)
}

// opened is the check of a device that was opened here, f its fault. Where this user may
// not and the daemon's perhaps may, nothing is known.
func (p *patient) opened(port health.Check, f *terminal.Fault, cause ...error) health.Check {
	if f == nil {
		port.Detail += "; it was opened and works"
		return port
	}
	denied := f.Code == scanner.CodePermission || len(cause) > 0 && errors.Is(cause[0], fs.ErrPermission)
	if me := os.Geteuid(); denied && me != 0 && me != p.machine.Owner(p.config.Data) {
		return port.Hidden("whether " + port.Name + " works")
	}
	return health.Device(port.Code, f, "")
}

// pins asks the daemon, or finds each line and touches none.
func (p *patient) pins() health.Check {
	c := pins.Of(p.config)
	var faults []terminal.Fault
	if p.daemon == health.DaemonUp {
		for i := range p.status.Board {
			faults = append(faults, *fault(&p.status.Board[i]))
		}
	} else if err := c.Validate(); err != nil {
		faults = append(faults, terminal.Fault{Code: gpio.CodeNoLine, ClerkEN: "A pin is configured wrongly.", Technician: err.Error()})
	} else if find := pins.Machine(p.config); find != nil {
		for _, f := range gpio.Look(c, find) {
			faults = append(faults, pins.Fault(f))
		}
	}
	return health.Pins(c.Count(), faults)
}

// asTold prefers the daemon's fault to what the files say: it has tried. Of a device that
// works the port's place is worth telling.
func asTold(port health.Check, faulty bool, told health.Check) health.Check {
	if faulty {
		if port.State == health.Fail { // why it is so
			told.Detail += "; " + port.Detail
		}
		return told
	}
	if port.State == health.OK {
		told.Detail += ": " + port.Detail
	}
	return told
}

// untouched is the port of a device that a silent daemon may have open.
func untouched(port health.Check) health.Check {
	if port.State == health.OK {
		return port.Skip("%s; it was not opened, for terminald may have it", port.Detail)
	}
	return port
}

// printer checks the printer: by the daemon's word, or by asking its status.
func (p *patient) printer(ctx context.Context) health.Check {
	c := p.machine.Port(health.CheckPrinter, p.config.Printer.Path, p.machine.Owner(p.config.Data))
	switch {
	case p.daemon == health.DaemonUp:
		if p.status.Printer == nil && p.status.Paper != nil {
			return health.Device(health.CheckPrinter, fault(p.status.Paper), "").Soon()
		}
		return asTold(c, p.status.Printer != nil, health.Device(health.CheckPrinter, fault(p.status.Printer), "it is ready"))
	case p.daemon == health.DaemonSilent:
		return untouched(c)
	case c.State == health.Fail || c.State == health.Skipped:
		return c
	}
	paper, err := connect(ctx, p.config, nil) // the doctor switches no pin
	if err != nil {
		if paper == nil {
			return health.Config(p.configPath, err)
		}
		return p.opened(c, printerFault(paper.device.Status().Fault), err)
	}
	defer paper.stop()
	st := paper.device.Status()
	if st.Fault != nil && !st.Fault.Stops {
		return health.Device(health.CheckPrinter, printerFault(st.Fault), "").Soon()
	}
	c = p.opened(c, printerFault(st.Fault))
	if st.Fault == nil && !st.Answers {
		c.Detail += ", but it answers no questions: paper and cover are not known"
	}
	return c
}

func printerFault(f *printer.Fault) *terminal.Fault {
	if f == nil {
		return nil
	}
	return &terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician}
}

// running is a device that this program runs until stop.
type running struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func (r *running) stop() {
	r.cancel()
	r.done.Wait()
}

// paperOpen is a printer that was opened here.
type paperOpen struct {
	running
	device  *printer.Device
	profile printer.Profile
}

// connect opens the printer and waits until it has answered or been given up. With an
// error it is not open, and nil for a configuration that cannot work. The board, if there
// is one, has its busy and power lines.
func connect(ctx context.Context, c configs.Terminal, board *gpio.Board) (*paperOpen, error) {
	cfg, err := stationery.Config(c)
	cfg = pins.Printer(board, cfg)
	if err = errors.Join(err, cfg.Validate()); err != nil {
		return nil, fmt.Errorf("printer: %w", err)
	}
	p := &paperOpen{device: printer.New(cfg, quiet()), profile: cfg.Profile}
	port, err := printer.OpenPort(cfg.Path, cfg.Baud, cfg.Flow) // its own words on why not
	if err != nil {
		return p, err
	}
	_ = port.Close() // nothing was written
	run, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	p.done.Go(func() { _ = p.device.Run(run) }) // its only error is of the configuration, seen above
	limit := time.NewTimer(connectIn)
	defer limit.Stop()
	for {
		changed := p.device.Changed()
		if p.device.Status().Connected {
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return p, nil
		case <-limit.C:
			return p, nil // its status has the fault
		}
	}
}

// glassOpen is a scanner that was opened here.
type glassOpen struct {
	running
	fault *terminal.Fault // its first word, nil for one that works
}

// listen opens the scanner and waits for its first word. scans is called on a goroutine of
// its own.
func listen(ctx context.Context, cfg scanner.Config, scans func(scanner.Scan)) (*glassOpen, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(ctx)
	g := &glassOpen{running: running{cancel: cancel}}
	words := make(chan *scanner.Fault, 1)
	g.done.Go(func() {
		_ = scanner.New(cfg, quiet()).Run(run, scans, func(s scanner.State) { // its only error is of the configuration, seen above
			select {
			case words <- s.Fault:
			default:
			}
		})
	})
	limit := time.NewTimer(connectIn)
	defer limit.Stop()
	select {
	case f := <-words:
		if f != nil {
			g.fault = &terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician}
		}
	case <-ctx.Done():
	case <-limit.C:
		g.fault = &terminal.Fault{Code: scanner.CodePort, ClerkEN: "Scanner not available.", Technician: cfg.Path + " did not open in time: something holds it without saying so"}
	}
	return g, nil
}
