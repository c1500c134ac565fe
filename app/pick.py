"""Which run a page is about."""

from __future__ import annotations

import streamlit as st

import store
import text
from probe.store.queries import Run, StoreError


def pick_run(runs: list[Run]) -> Run:
    """Let the reader choose; the link says what is chosen, so that it can be shared."""
    by_uid = {run.uid: run for run in runs}

    def follow() -> None:
        st.query_params["run"] = st.session_state.chosen_run

    current = runs[0]
    if reference := st.query_params.get("run"):
        try:
            current = store.find(reference)
        except StoreError as error:
            st.warning(f"{text.sentence(error)} The newest run is shown instead.")
    st.session_state.chosen_run = current.uid
    st.selectbox(
        "Run",
        list(by_uid),
        format_func=lambda uid: text.run_choice(by_uid[uid]),
        key="chosen_run",
        on_change=follow,
    )
    return current
