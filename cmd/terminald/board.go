package main

import (
	"context"
	"net"
	"sync"
	"time"

	"grattoir/cmd/internal/pins"
	"grattoir/device/gpio"
	"grattoir/device/screen"
	"grattoir/device/terminal"
)

// board joins the pins to the counter. A nil one is a terminal that has none.
type board struct {
	*gpio.Board

	mu      sync.Mutex
	faults  []terminal.Fault
	counter *terminal.Terminal // nil until it is made
}

// openBoard makes the outputs idle. It leaves them to a terminald that runs already: this
// one will find the ledger locked.
func (d *daemon) openBoard() {
	if d.pins == nil || answers(d.config.Socket) {
		return
	}
	b := &board{}
	b.Board = gpio.Open(gpio.Options{Config: pins.Of(d.config), Find: d.pins, Log: d.log, Faults: b.told})
	d.board = b
	d.atEnd("the pins", b.Close)
}

// answers says whether somebody serves the socket.
func answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	return err == nil && c.Close() == nil
}

// lines is the board for those who use its lines, nil where there is none.
func (b *board) lines() *gpio.Board {
	if b == nil {
		return nil
	}
	return b.Board
}

// told takes the faults of the pins, and passes them on as soon as there is a counter.
func (b *board) told(list []*gpio.Fault) {
	faults := make([]terminal.Fault, len(list))
	for i, f := range list {
		faults[i] = pins.Fault(f)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = faults
	if b.counter != nil {
		b.counter.BoardFaults(faults)
	}
}

// follow gives the board its counter.
func (b *board) follow(counter *terminal.Terminal) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counter = counter
	if len(b.faults) > 0 {
		counter.BoardFaults(b.faults)
	}
}

// run shows the counter's state and passes presses to the page, which has the question
// about the cash.
func (b *board) run(ctx context.Context, counter *terminal.Terminal, page *screen.Screen) {
	if b != nil {
		b.Run(ctx, counter, page.PressPay)
	}
}
