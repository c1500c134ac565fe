"""The dashboard: `streamlit run app/main.py [-- --db FILE]`, or `probe dashboard`."""

from __future__ import annotations

import streamlit as st

import store
from probe.store.queries import StoreError
from text import sentence

st.set_page_config(page_title="probe", layout="wide", initial_sidebar_state="collapsed")

page = st.navigation(
    [
        st.Page("views/runs.py", title="Runs", default=True),
        st.Page("views/run.py", title="Run", url_path="run"),
        st.Page("views/compare.py", title="Compare", url_path="compare"),
        st.Page("views/whatif.py", title="What if", url_path="whatif"),
    ],
    position="top",
)

recording = store.recording()
if recording.is_sample:
    st.caption(
        "There is no probe.db here, so this is the sample that ships with probe: a real recording "
        "of `probe demo`. Start with `--db FILE` or set `PROBE_DB` to see your own."
    )
try:
    page.run()
except StoreError as error:
    st.error(sentence(error))
