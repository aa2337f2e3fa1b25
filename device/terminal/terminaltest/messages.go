package terminaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"grattoir/device/terminal"
	"grattoir/validate"
)

var _ terminal.Messages = (*Messages)(nil)

// Messages are central's messages in memory, all in their days.
type Messages struct {
	mu    sync.Mutex
	list  []validate.Message
	read  []string
	fault error
}

// Say adds a message, the newest.
func (m *Messages) Say(x validate.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.Insert(m.list, 0, x)
}

// Break makes every question and act fail with err; nil mends it.
func (m *Messages) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = err
}

// WasRead lists what was read, "7 marie", in its order.
func (m *Messages) WasRead() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.read)
}

// Messages are all of them, the newest first.
func (m *Messages) Messages(context.Context) ([]validate.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return nil, m.fault
	}
	return slices.Clone(m.list), nil
}

// Read records once that a message was read.
func (m *Messages) Read(_ context.Context, number int64, operator string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return m.fault
	}
	for i := range m.list {
		if x := &m.list[i]; x.Number == number && !x.Read {
			x.Read, x.Reader = true, operator
			m.read = append(m.read, fmt.Sprintf("%d %s", number, operator))
		}
	}
	return nil
}
