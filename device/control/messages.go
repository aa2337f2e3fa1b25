package control

import (
	"net/http"

	"grattoir/validate"
)

type readRequest struct {
	Number int64 `json:"number"`
}

func (s *server) messages(w http.ResponseWriter, r *http.Request) {
	list, err := s.opt.Terminal.Messages(r.Context())
	if list == nil {
		list = []validate.Message{}
	}
	s.done(w, list, err)
}

func (s *server) readMessage(w http.ResponseWriter, r *http.Request) {
	var q readRequest
	if !read(w, r, &q) {
		return
	}
	s.done(w, struct{}{}, s.opt.Terminal.ReadMessage(r.Context(), q.Number))
}
